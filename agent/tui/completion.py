"""What may be meant by what is being written, above the composer. Shows and remembers a choice; knows nothing of where
the words come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from agent.tui import theme
from agent.tui.cells.paper import one_line

ROWS = 8


@dataclass(frozen=True, slots=True)
class Offer:
    """`text` stands in for the characters from `start` to `end` of what is written. `final`: nothing more can follow,
    so that Enter sends it at once. `more`: what follows belongs to it, without a blank."""

    start: int
    end: int
    text: str
    about: str = ""
    final: bool = False
    more: bool = False


class Completion(Widget):
    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self._offers: tuple[Offer, ...] = ()
        self._choice = self._top = 0

    @property
    def chosen(self) -> Offer | None:
        return self._offers[self._choice] if self._offers else None

    def offer(self, offers: Sequence[Offer]) -> None:
        if tuple(offers) != self._offers:
            self._offers, self._choice, self._top = tuple(offers), 0, 0
            self.display = bool(self._offers)
            self.refresh(layout=True)

    def move(self, step: int) -> None:
        self._choice = (self._choice + step) % len(self._offers)
        self._top = min(self._choice, max(self._top, self._choice - ROWS + 1))
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(ROWS, len(self._offers))

    def render_line(self, y: int) -> Strip:
        width, number = self.size.width, self._top + y
        if number >= len(self._offers):
            return Strip.blank(width, self.rich_style)
        offer = self._offers[number]
        here = number == self._choice
        most = max(12, width // 2) if any(o.about for o in self._offers) else width - 2
        column = min(max(cell_len(o.text) for o in self._offers) + 2, most)
        name = one_line(offer.text, column - 1)
        segments = [
            Segment("▸ " if here else "  ", theme.accent),
            Segment(name + " " * (column - cell_len(name)), theme.accent_bold if here else theme.ink),
            Segment(one_line(offer.about, max(0, width - column - 3)), theme.quiet),
        ]
        return Strip(segments).adjust_cell_length(width, self.rich_style).apply_style(self.rich_style)
