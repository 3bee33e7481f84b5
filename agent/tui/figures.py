"""Numbers as people read them, and the figures of a turn from its replies' timings. Pure; unknown stays unsaid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.commands.numbers import clock as clock
from agent.commands.numbers import compact as compact
from agent.messages import Timings

if TYPE_CHECKING:
    from agent.tui.picture import End


def rate(timings: Sequence[Timings]) -> float | None:
    """Tokens a second over these replies: the server's own figure for one, weighted by tokens for several."""
    known = [t for t in timings if t.predicted_per_second]
    if len(known) == 1:
        return known[0].predicted_per_second
    tokens = sum(t.predicted_n or 0 for t in known)
    milliseconds = sum(t.predicted_ms or 0 for t in known)
    return tokens / milliseconds * 1000 if tokens and milliseconds else None


def acceptance(timings: Sequence[Timings]) -> tuple[float | None, float | None]:
    """Accepted/drafted (0..1) and mean tokens per target step over these replies."""
    drafted = [t for t in timings if t.draft_n and t.draft_n_accepted is not None]
    if not drafted:
        return None, None
    accepted = sum(t.draft_n_accepted or 0 for t in drafted)
    tokens = sum(t.predicted_n or 0 for t in drafted)
    steps = tokens - accepted
    return accepted / sum(t.draft_n or 0 for t in drafted), tokens / steps if steps > 0 else None


def cache_share(timings: Sequence[Timings]) -> float | None:
    known = [t for t in timings if t.cache_n is not None and t.prompt_n is not None]
    total = sum((t.cache_n or 0) + (t.prompt_n or 0) for t in known)
    return sum(t.cache_n or 0 for t in known) / total if total else None


def end_figures(entry: End, width: int) -> str:
    """`1,204 tokens · 142 tok/s · acc 78% (6.9/step) · cache 98% · 14 s`, as much as fits."""
    parts: list[str] = []
    if tokens := sum(t.predicted_n or 0 for t in entry.timings):
        parts.append(f"{tokens:,} token{'s' if tokens != 1 else ''}")
    if speed := rate(entry.timings):
        parts.append(f"{speed:.0f} tok/s")
    share, per_step = acceptance(entry.timings)
    if share is not None:
        parts.append(f"acc {share:.0%}" + (f" ({per_step:.1f}/step)" if per_step else ""))
    if (cached := cache_share(entry.timings)) is not None:
        parts.append(f"cache {cached:.0%}")
    if entry.seconds >= 1:
        parts.append(clock(entry.seconds))
    while parts and len(" · ".join(parts)) > width:
        parts.pop()
    return " · ".join(parts)
