"""How far the start of an engine has come: figures as data, drawn alike by the screen, the status line and stderr."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Stage: TypeAlias = Literal["look", "engine", "models", "load", "check"]
STAGES: tuple[Stage, ...] = ("look", "engine", "models", "load", "check")  # in the order of a start


@dataclass(frozen=True, slots=True)
class Phase:
    """What a start is doing now. words: without figures. file: the model file it is about, "" for none. done, total: in
    bytes or percent; total 0: nothing is counted. rate: bytes a second over the last seconds, 0.0 while unknown."""

    stage: Stage
    words: str
    file: str = ""
    done: int = 0
    total: int = 0
    unit: Literal["bytes", "percent"] = "bytes"
    rate: float = 0.0

    @property
    def share(self) -> float | None:
        """0 to 1; None where nothing is counted."""
        return min(1.0, self.done / self.total) if self.total else None

    @property
    def left(self) -> float | None:
        """Seconds; None where nobody can tell."""
        return (self.total - self.done) / self.rate if self.rate > 0 and self.total else None

    @property
    def figures(self) -> tuple[str, ...]:
        """As read by people, the most telling first; empty where nothing is counted."""
        if not self.total:
            return ()
        if self.unit == "percent":
            return (f"{100 * self.done // self.total}%",)
        rate = (f"{size(self.rate)}/s",) if self.rate > 0 else ()
        left = (f"{span(self.left)} left",) if self.left else ()
        return (size_of(self.done, self.total), *rate, *left)

    def __str__(self) -> str:
        return f"{self.words}: {', '.join(self.figures)}" if self.total else self.words


Report: TypeAlias = Callable[[Phase], None]


class Lines:
    """Which phases to say where lines can only be added: each once, and then every tenth of it that is done."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}  # words -> tenths

    def line(self, phase: Phase) -> str | None:
        """None: not worth a line."""
        tenth = int((phase.share or 0.0) * 10)
        if self._told.get(phase.words, -1) >= tenth:
            return None
        self._told[phase.words] = tenth
        return str(phase)


def size(count: float) -> str:
    """Bytes: 98 MB, 1.09 GB, 17.4 GB."""
    return f"{_number(count, count)} {_unit(count)}"


def size_of(done: int, total: int) -> str:
    """45 of 98 MB."""
    return f"{_number(done, total)} of {size(total)}"


def span(seconds: float | None) -> str:
    """40 s, 6 min, 2 h 5 min."""
    whole = round(seconds or 0)
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _unit(count: float) -> str:
    return "GB" if count >= 1e9 else "MB" if count >= 1e6 else "kB"


def _number(count: float, scale: float) -> str:
    """`count` in the unit of `scale`, with as many digits as that is worth."""
    if scale >= 1e9:
        return f"{count / 1e9:.1f}" if scale >= 1e10 else f"{count / 1e9:.2f}"
    return f"{count / (1e6 if scale >= 1e6 else 1e3):.0f}"
