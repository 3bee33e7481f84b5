"""/permissions: which rules are in force, where each comes from, and away with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.commands.base import Answer, Command, Said
from agent.commands.table import listed
from agent.core.rules import Rule, Rulebook
from agent.core.session import Session
from agent.errors import ConfigError

HINT = "Modes: /mode. Write rules in config.toml under [permissions]; /permissions remove N takes one of yours away."


def permissions_command(session: Callable[[], Session], rules: Callable[[], Rulebook]) -> Command:
    async def run(argument: str) -> Answer:
        word, _, number = argument.partition(" ")
        rows = _listed(rules())
        if not word:
            return listed(_table(session().mode, rows))
        if word != "remove" or not number.strip().isdigit():
            raise ConfigError("/permissions lists the rules; /permissions remove N takes the rule with number N away.")
        if not 1 <= int(number) <= len(rows):
            raise ConfigError(f"There is no rule {number.strip()}; there are {len(rows)}.")
        rule = rows[int(number) - 1]
        rules().remove(rule)
        return Said(f"Removed: {rule.verdict} {rule.text} ({rule.source}).")

    def complete(written: str) -> Sequence[str]:
        return ["remove "] if "remove".startswith(written) and written else []

    return Command(
        "permissions", "rules in force, and removing one", run, usage="[remove N]", complete=complete, headless=True
    )


def _listed(rules: Rulebook) -> list[Rule]:
    """In the order in which they count."""
    order = ("deny", "ask", "allow")
    return sorted((r for r in rules if not r.builtin), key=lambda r: order.index(r.verdict))


def _table(mode: str, rules: list[Rule]) -> str:
    rows = [(str(n), r.verdict, r.text, r.source) for n, r in enumerate(rules, 1)]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [f"{n:>{widths[0]}}  {v:<{widths[1]}}  {t:<{min(widths[2], 50)}}  {s}" for n, v, t, s in rows]
    none = [] if rows else ["No rules of yours yet."]
    builtin = "Files that hold secrets (.env, keys, ~/.ssh, cloud credentials, …) are denied to read, also to commands."
    return "\n".join(
        [f"Permission mode: {mode}. Deny counts before ask, ask before allow.", *none, *lines, builtin, HINT]
    )
