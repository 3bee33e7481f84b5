"""Numbers as people read them."""

from __future__ import annotations


def compact(count: float) -> str:
    """12400 -> 12.4k, 32768 -> 32k."""
    if count < 1000:
        return str(int(count))
    thousands = count / 1000
    if count % 1024 == 0 and count >= 4096:
        return f"{count // 1024:.0f}k"
    return f"{thousands:.1f}k" if thousands < 100 else f"{thousands:.0f}k"


def clock(seconds: float) -> str:
    seconds = max(0, int(seconds))
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60:02} s"


def duration(seconds: float | None) -> str:
    """0.42, 7.3, 84, 12m: seconds without their unit, in at most four cells; "" for None."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds:.2f}" if seconds >= 0.005 else "0"
    if seconds < 10:
        return f"{seconds:.1f}"
    return f"{seconds:.0f}" if seconds < 1000 else f"{seconds / 60:.0f}m"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
