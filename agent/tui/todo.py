"""The model's list of steps, above the composer while there is something left to do."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from agent.tui import theme
from agent.tui.cells.paper import BLANK, clean, one_line

MOST = 6  # rows of items
MARKS: dict[str, tuple[str, Style, Style]] = {
    "x": ("✓", theme.good, theme.faint),
    ">": ("▸", theme.accent, theme.bright),
    " ": ("○", theme.quiet, theme.quiet),
}


class TodoList(Widget):
    """`show` takes lines such as `[x] words`."""

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self._items: tuple[tuple[str, str], ...] = ()

    def show(self, lines: tuple[str, ...]) -> None:
        items = tuple((line[1], line[4:]) for line in lines if len(line) > 4)
        if all(state == "x" for state, _ in items):
            items = ()
        if items != self._items:
            self._items = items
            self.display = bool(items)
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if viewport.height < 16:
            return 1
        return 1 + min(MOST, len(self._items), max(1, viewport.height // 4))

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        strip = self._head(width) if y == 0 else self._row(y - 1, width)
        return strip.adjust_cell_length(width, base).apply_style(base)

    def _head(self, width: int) -> Strip:
        done = sum(state == "x" for state, _ in self._items)
        words = f"{done} of {len(self._items)} done"
        segments = [Segment(words, theme.quiet)]
        if self.size.height == 1:
            now = self._now()
            segments.append(Segment(f"  ▸ {one_line(self._items[now][1], max(1, width - len(words) - 4))}", theme.ink))
        return Strip(segments)

    def _now(self) -> int:
        for wanted in (">", " "):
            for n, (state, _) in enumerate(self._items):
                if state == wanted:
                    return n
        return 0

    def _row(self, y: int, width: int) -> Strip:
        """Where not all fit, those around the present one."""
        room = self.size.height - 1
        top = min(max(0, self._now() - 1), max(0, len(self._items) - room))
        if top + y >= len(self._items):
            return BLANK
        state, words = self._items[top + y]
        mark, mark_style, style = MARKS.get(state, MARKS[" "])
        before = y == 0 and top > 0
        after = y == room - 1 and top + room < len(self._items)
        more = f"  ({top} before)" if before else f"  (+{len(self._items) - top - room})" if after else ""
        text = one_line(clean(words), max(1, width - 2 - len(more)))
        return Strip([Segment(f"{mark} ", mark_style), Segment(text, style), Segment(more, theme.faint)])
