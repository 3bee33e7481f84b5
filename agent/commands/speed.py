"""`/speed`: how fast it was, turn by turn, and where the time went."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.commands.base import Answer, Command, Line, Said, Tone
from agent.commands.numbers import clock, compact, duration, share
from agent.commands.table import Column, bar, legend, table
from agent.core.session import Session
from agent.core.stats import Figures, TurnFigures, call_figures, total, turns
from agent.errors import AgentError
from agent.events import DurableEvent
from agent.messages import Share

NEWEST = 20  # turns shown without being asked for all
COLUMNS = (
    Column("turn", 0),
    Column("message", 5, text=True, tone="faint"),
    Column("steps", 9),
    Column("prompt", 3),
    Column("cached", 1),
    Column("out", 4),
    Column("tok/s", 0, tone="bold"),
    Column("/s wall", 8),
    Column("acc", 1, tone="accent"),
    Column("/step", 4),
    Column("prefill", 6),
    Column("decode", 6),
    Column("tools", 6),
    Column("you", 7),
    Column("other", 7),
    Column("seconds", 2),
)
KIND_COLUMNS = (
    Column("kind", 0, text=True),
    Column("tokens", 0),
    Column("drafted", 2),
    Column("accepted", 2),
    Column("acc", 0, tone="accent"),
    Column("/step", 1),
)
TIME: tuple[tuple[str, Tone], ...] = (
    ("decode", "accent"),
    ("prefill", "good"),
    ("tools", "warn"),
    ("waiting for you", "faint"),
    ("other", "faint"),
)
KIND_NAMES = {"thinking": "thinking", "prose": "prose", "code": "code", "calls": "tool arguments"}
BAR_MOST = 72  # cells


def speed_command(session: Callable[[], Session]) -> Command:
    async def run(argument: str) -> Answer:
        events = session().past
        found = turns(events)
        if not found:
            return Said("No turn has ended yet.")
        if argument.isdecimal():
            one = next((t for t in found if t.number == int(argument)), None)
            if one is None:
                raise AgentError(f"There is no turn {argument} that has ended; the last one is {found[-1].number}.")
            return Said.drawn(lambda width: one_turn(one, width))
        if argument not in ("", "all"):
            raise AgentError("Write /speed, /speed all, or /speed with the number of a turn.")
        most = len(found) if argument == "all" else NEWEST
        return Said.drawn(lambda width: report(found, events, most, width))

    return Command("speed", "tokens, acceptance and time of each turn", run, "[turn]", ("stats",), headless=True)


def report(
    found: Sequence[TurnFigures],
    events: Sequence[DurableEvent],
    most: int,
    width: int,
) -> list[Line]:
    """The newest `most` turns, and the whole session."""
    whole = total(events)
    shown = found[-most:]
    rows = [_cells(_number(t), t.title, t.total) for t in shown]
    if len(found) > 1:
        rows.append(_cells("all", f"{len(found)} turns", whole))
    lines = table(COLUMNS, rows, width, total=len(found) > 1)
    if len(found) > len(shown):
        lines.insert(1, ((f"… {len(found) - len(shown)} earlier turns (/speed all)", "faint"),))
    return [*lines, *_time(whole, width), *_kinds(whole, width), *_calls(events)]


def one_turn(turn: TurnFigures, width: int) -> list[Line]:
    """The requests of one turn."""
    rows = [_cells(str(n), "", step) for n, step in enumerate(turn.steps, 1)]
    columns = (Column("step", 0), *COLUMNS[1:])
    lines = table(columns, [*rows, _cells("all", "", turn.total)], width, total=True)
    return [*lines, *_time(turn.total, width), *_kinds(turn.total, width)]


def _number(turn: TurnFigures) -> str:
    return (str(turn.number) if turn.number else "–") + ("" if turn.outcome == "done" else "!")


def _cells(number: str, title: str, f: Figures) -> list[str]:
    return [
        number,
        title,
        str(f.requests),
        "" if f.prompt is None else compact(f.prompt),
        share(f.cache_share),
        "" if f.generated is None else compact(f.generated),
        "" if f.rate is None else f"{f.rate:.0f}",
        "" if f.wall_rate is None else f"{f.wall_rate:.0f}",
        share(f.acceptance),
        "" if f.tokens_per_step is None or not f.drafted else f"{f.tokens_per_step:.1f}",
        *(duration(s) for s in (f.prefill, f.decode, f.tools, f.waited or None, f.other, f.wall)),
    ]


def _time(f: Figures, width: int) -> list[Line]:
    """The parts of the wall time; they add up to it."""
    if not f.wall or f.other is None:
        return []
    parts = (f.decode or 0.0, f.prefill or 0.0, f.tools or 0.0, f.waited, f.other)
    shown = [n for n, part in enumerate(parts) if part > 0]
    sizes = [parts[n] for n in shown]
    tones: list[Tone] = [TIME[n][1] for n in shown]
    names = [(TIME[n][0], f"{parts[n] / sum(parts):.0%}") for n in shown]
    head: Line = (("Where the time went", "bold"), (f"  {clock(f.wall)}", "faint"))
    return [(), head, bar(sizes, min(width, BAR_MOST), tones), *legend(names, width, tones)]


def _kinds(f: Figures, width: int) -> list[Line]:
    if not f.split or not f.drafted:
        return []
    rows = [
        [
            KIND_NAMES[s.kind],
            f"{s.tokens:,}",
            f"{s.drafted:,}",
            f"{s.accepted:,}",
            share(s.accepted / s.drafted if s.drafted else None),
            _per_step(s),
        ]
        for s in f.split
    ]
    return [(), (("Drafts by kind of text", "bold"),), *table(KIND_COLUMNS, rows, width)]


def _per_step(s: Share) -> str:
    passes = s.tokens - s.accepted
    return f"{s.tokens / passes:.1f}" if passes > 0 else ""


def _calls(events: Sequence[DurableEvent]) -> list[Line]:
    """How many calls there were, and what it took to read them."""
    counts = call_figures(events)
    if not counts["calls"]:
        return []
    rest = [f"{count:,} {name}" for name, count in counts.items() if count and name != "calls"]
    words = ", ".join([f"{counts['calls']:,}", *rest])
    return [(), (("Tool calls", "bold"), (f"  {words}", ""))]
