"""The whole conversation as one line-API widget of cached strips: its cost does not grow with the history."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from agent.tui.cells.answer import StreamedAnswer
from agent.tui.cells.cells import cell_strips
from agent.tui.picture import AnswerCell, CallCell, Cell, Picture, UserCell

BATCH = 20  # cells drawn anew in one idle moment after the width changed
IDLE = 0.02  # seconds between such moments
MARGIN = 2  # cells left free at the right, for the scroll bar and for air


class Transcript(ScrollView, can_focus=True):
    """`show` draws what has changed in the picture. Follows the end unless the user has scrolled up."""

    ALLOW_SELECT = True

    def __init__(self, picture: Picture) -> None:
        super().__init__(id="transcript")
        self._picture = picture
        self._drawn: dict[str, list[Strip]] = {}
        self._streams: dict[str, StreamedAnswer] = {}
        self._keys: list[str] = []
        self._ends: list[int] = []  # line after the last of each cell
        self._stale: set[str] = set()
        self._width = 0
        self.unfolded = False

    # ---- drawing
    def show(self) -> None:
        changed = self._picture.take_changed()
        if not changed or not self._width:
            self._stale |= changed
            return
        follow = self.following
        for key in changed:
            self._draw(key)
        self._layout(follow)

    @property
    def following(self) -> bool:
        return self.scroll_offset.y >= self.max_scroll_y - 1

    def toggle_unfolded(self) -> None:
        self.unfolded = not self.unfolded
        self._redraw_all()

    def _draw(self, key: str) -> None:
        cell = self._picture.cells.get(key)
        self._stale.discard(key)
        if cell is None:
            self._drawn.pop(key, None)
            self._streams.pop(key, None)
            return
        if isinstance(cell, AnswerCell) and cell.open:
            stream = self._streams.setdefault(key, StreamedAnswer(self._width))
            lines = stream.feed(cell.text)
        else:
            self._streams.pop(key, None)
            lines = cell_strips(cell, self._width, unfolded=self.unfolded)
        self._drawn[key] = lines

    def _layout(self, follow: bool) -> None:
        self._keys = [k for k in self._picture.cells if k in self._drawn]
        heights: list[int] = []
        previous: Cell | None = None
        for key in self._keys:
            cell = self._picture.cells[key]
            gap = _gap(previous, cell)
            heights.append(gap + len(self._drawn[key]))
            previous = cell
        self._ends = list(accumulate(heights))
        total = self._ends[-1] if self._ends else 0
        self.virtual_size = Size(self._width, total + 1)
        if follow:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        width = self.size.width
        strip = self._line(line).adjust_cell_length(width, self.rich_style).apply_style(self.rich_style)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(line)) is not None:
            start, end = span
            end = width if end < 0 else end
            chosen = self.screen.get_component_rich_style("screen--selection")
            parts = (strip.crop(0, start), _styled(strip.crop(start, end), chosen), strip.crop(end, width))
            strip = Strip.join(parts)
        return strip.apply_offsets(0, line)

    def _line(self, line: int) -> Strip:
        at = bisect_right(self._ends, line)
        if at >= len(self._ends):
            return Strip.blank(0)
        lines = self._drawn[self._keys[at]]
        back = self._ends[at] - line  # from the cell's last line, so that the gap stands before it
        return lines[-back] if back <= len(lines) else Strip.blank(0)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        total = self._ends[-1] if self._ends else 0
        text = "\n".join(self._line(n).text.rstrip() for n in range(total))
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    # ---- widths
    def on_resize(self, event: events.Resize) -> None:
        width = max(10, event.size.width - MARGIN)
        if width != self._width:
            self._width = width
            self._redraw_all()

    def _redraw_all(self) -> None:
        """What is on screen at once, the rest in idle moments, from the end."""
        follow = self.following or not self._drawn
        self._streams.clear()
        self._stale = set(self._picture.cells)
        self._picture.take_changed()
        self._some(BATCH, follow)

    def _some(self, count: int, follow: bool) -> None:
        first = bisect_right(self._ends, self.scroll_offset.y)
        last = bisect_right(self._ends, self.scroll_offset.y + self.size.height)
        on_screen = [k for k in self._keys[first : last + 1] if k in self._stale]
        rest = [k for k in reversed(self._picture.cells) if k in self._stale]
        for key in [*on_screen, *rest][: max(count, len(on_screen))]:
            self._draw(key)
        for key in self._stale:
            self._drawn.setdefault(key, [])
        self._layout(follow)
        if self._stale:
            self.set_timer(IDLE, lambda: self._some(BATCH, self.following))


def _styled(strip: Strip, style: Style) -> Strip:
    return Strip([s._replace(style=(s.style or Style()) + style) for s in strip])


def _gap(previous: Cell | None, cell: Cell) -> int:
    """Blank lines before a cell: calls that follow each other stand close, all else has air."""
    if previous is None:
        return 0
    if isinstance(previous, CallCell) and isinstance(cell, CallCell):
        return 0 if not previous.output and not previous.preview else 1
    return 1 if not isinstance(cell, UserCell) else 2
