"""Commands about the room that is left in the context."""

from __future__ import annotations

from collections.abc import Callable

from agent.commands.base import Answer, Command, Line, Said, Tone
from agent.commands.table import SHADES, Column, bar, row, table
from agent.core.session import Session
from agent.core.spending import Spending

BAR_MOST = 72  # cells
COLUMNS = (
    Column("", 0, tone="accent"),
    Column("part of the context", 0, text=True),
    Column("tokens", 0),
    Column("", 1),
)
TONES: tuple[Tone, ...] = ("accent", "", "good", "bold", "warn", "accent", "", "faint")
FREE = "·"


def compact_command(session: Callable[[], Session]) -> Command:
    async def run(argument: str) -> Answer:
        done = await session().compact(argument)
        # what was done is part of the conversation
        return None if done else Said("There is nothing to compact yet: what would be left is not shorter.")

    about = "make the conversation shorter; focus: what its summary should keep most of"
    return Command("compact", about, run, "[focus]", ("compress",), headless=True)


def context_command(session: Callable[[], Session]) -> Command:
    async def run(_argument: str) -> Answer:
        spent = await session().spending()
        endpoint = session().endpoint
        plan = endpoint.plan if endpoint else ""
        return Said.drawn(lambda width: context(spent, plan, width))

    return Command("context", "where the context goes", run, aliases=("ctx",), headless=True)


def context(spent: Spending, plan: str, width: int) -> list[Line]:
    """`plan`: the table of the engine's memory, if it is ours."""
    whole = spent.n_ctx or spent.used or 1
    word = "" if spent.exact else "about "
    head: list[tuple[str, Tone]] = [("Context ", "bold"), (f"{word}{spent.used:,}", "bold")]
    if spent.n_ctx:
        head.append((f" of {spent.n_ctx:,} tokens ({spent.used / spent.n_ctx:.0%})", ""))
    else:
        head.append((" tokens; how many the server holds is not known", ""))
    parts = [*spent.parts, *([("kept for the reply", spent.reply)] if spent.n_ctx else [])]
    room = min(width, BAR_MOST)
    sizes = [size for _, size in parts]
    used = bar(sizes, round(room * min(1.0, sum(sizes) / whole)), TONES)
    blank = room - sum(len(text) for text, _ in used)
    rows = [[SHADES[n % len(SHADES)], name, f"{size:,}", f"{size / whole:.0%}"] for n, (name, size) in enumerate(parts)]
    if spent.free is not None:
        rows.append([FREE, "free", f"{spent.free:,}", f"{spent.free / whole:.0%}"])
    lines: list[Line] = [head, [*used, (FREE * blank, "faint")], *table(COLUMNS, rows, width)]
    if spent.n_ctx and not spent.free:
        lines.append(row("The next message compacts the conversation first.", "warn"))
    if plan:
        lines += [row(""), row("Memory of the engine", "bold"), *(row(text) for text in plan.split("\n"))]
    return lines
