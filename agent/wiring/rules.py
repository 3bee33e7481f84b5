"""The rules of one session, from where they are written to where they decide."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agent.config.paths import Paths
from agent.config.rules import forget_rule, keep_rules, read_rules
from agent.core.rules import Rule, Rulebook
from agent.errors import ConfigError


def rulebook(paths: Paths, folder: Path) -> tuple[Rulebook, list[str]]:
    """And what the user should know of them. Raises ConfigError for a rule of the user's that is none."""
    home = Path(os.path.expanduser("~"))
    kept = paths.state / "permissions.json"
    written, notes = read_rules(paths.settings, folder / ".dflash" / "config.toml", kept, folder, home)
    rules: list[Rule] = []
    for w in written:
        try:
            rules.append(Rule.parse(w.verdict, w.text, w.source, root=str(folder), home=str(home), builtin=w.builtin))
        except ValueError as error:
            if w.source != ".dflash/config.toml":
                raise ConfigError(f"{w.source}: {error}") from error
            notes.append(f".dflash/config.toml: {error} It does not count.")

    def keep(texts: Sequence[str]) -> str:
        keep_rules(kept, folder, texts)
        return "always in this project"

    def forget(rule: Rule) -> None:
        if rule.builtin:
            raise ConfigError(
                f"{rule.text} comes with the product; an allow rule about the file in config.toml lifts it."
            )
        if rule.source != "always in this project":
            raise ConfigError(f"{rule.text} is written in {rule.source}; take it out there.")
        forget_rule(kept, folder, rule.text)

    return Rulebook(rules, root=str(folder), home=str(home), keep=keep, forget=forget), notes
