"""How far the reading of a prompt is: tokens, a bar, rate and time left, as much of it as fits. Pure."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style

from agent.events import PrefillProgress
from agent.tui import figures, theme

BLOCKS = " ▏▎▍▌▋▊▉█"
BAR = 8
Part = tuple[str, Style]


def prefill_part(p: PrefillProgress, age: float, room: int) -> list[Part]:
    """`age`: seconds since the server said so; its batches take seconds, and the clock goes on meanwhile."""
    fresh, done, total = p.processed - p.cache, figures.compact(p.processed), figures.compact(p.total)
    rate = fresh / p.time_ms * 1000 if fresh > 0 and p.time_ms > 0 else 0.0
    speed = f"{rate:,.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s" if rate else ""
    left = ""
    if rate and p.total > p.processed:
        left = f"{figures.clock(max(0.0, (p.total - p.processed) / rate - age) + 0.5)} left"
    drawn = bar(p.processed / p.total if p.total else 0.0)
    forms = (
        (f"reading {done} of {total} tokens ", drawn, _joined("  ", speed, left)),
        (f"reading {done} of {total} tokens ", drawn, left),
        (f"reading {done}/{total} ", drawn, left),
        (f"{done}/{total} ", drawn, left),
        (f"{done}/{total} ", "", left),
    )
    words, drawn, rest = next((f for f in forms if sum(map(cell_len, f)) + 1 <= room), forms[-1])
    return [(words, theme.quiet), (drawn, theme.accent), (f" {rest}" if rest else "", theme.quiet)]


def bar(share: float) -> str:
    """Eight cells."""
    eighths = round(max(0.0, min(1.0, share)) * BAR * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BLOCKS[rest] if rest else "")).ljust(BAR)


def _joined(between: str, *parts: str) -> str:
    return between.join(p for p in parts if p)
