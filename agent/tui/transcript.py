"""The conversation on the screen: one widget that is asked for visible lines only. Every entry is cached as strips per
width; what is out of sight is wrapped again when it comes into sight or when there is time."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from agent.tui import theme
from agent.tui.cells.entries import entry_strips
from agent.tui.cells.paper import BLANK, one_line
from agent.tui.cells.stream import StreamedAnswer
from agent.tui.picture import Answer, Entry, Picture

SETTLE_AFTER = 0.2  # seconds: the last words are shown first
IDLE_BATCH = 40  # entries wrapped again in one go while nothing else happens


class Block:
    """One entry and the strips it was last drawn as."""

    __slots__ = ("entry", "rough", "stream", "strips", "unfolded", "version", "width")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.version = -1
        self.width = 0
        self.unfolded = False
        self.strips: list[Strip] = []
        self.stream: StreamedAnswer | None = None
        self.rough = False  # ended, and still as it was streamed, block by block

    def stale(self, width: int, unfolded: bool) -> bool:
        return self.version != self.entry.version or self.width != width or self.unfolded != unfolded

    def draw(self, width: int, unfolded: bool) -> None:
        entry = self.entry
        if isinstance(entry, Answer) and (stream := self._streaming(entry, width)) is not None:
            self.strips = [*stream.feed(entry.text), BLANK]
            self.stream, self.rough = stream, not entry.live
        else:
            self.strips = entry_strips(entry, width, unfolded)
            self.stream, self.rough = None, False
        self.version, self.width, self.unfolded = entry.version, width, unfolded

    def _streaming(self, entry: Answer, width: int) -> StreamedAnswer | None:
        """What goes on with an answer as it comes; None where it is laid out whole."""
        stream = self.stream if self.stream is not None and self.stream.width == width else None
        if entry.live:
            return stream or StreamedAnswer(width)
        return stream if stream and not self.rough and entry.text.startswith(stream.fed) else None


class Transcript(ScrollView, can_focus=False):
    ALLOW_SELECT = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("end", "scroll_end", show=False)]

    def __init__(self, picture: Picture, welcome: Sequence[Strip] = ()) -> None:
        super().__init__()
        self._picture = picture
        self.welcome: list[Strip] = list(welcome)
        self._blocks: list[Block] = []
        self._starts: list[int] = []
        self._total = 0
        self._removed = 0
        self._tail: list[Strip] = []
        self._following = True
        self._rewrapping = False
        self.unfolded = False

    @property
    def allow_select(self) -> bool:
        return True

    @property
    def line_width(self) -> int:
        return max(8, self.size.width - 3)

    # ---- what the chat calls
    def show(self) -> None:
        """Draw what has changed since the last time."""
        if not self.size.width:
            return
        entries = self._picture.entries
        first = len(self._blocks)
        if self._picture.removed != self._removed:
            self._removed = self._picture.removed
            known = {id(b.entry): b for b in self._blocks}
            first = next(
                (n for n, b in enumerate(self._blocks) if n >= len(entries) or entries[n] is not b.entry), first
            )
            self._blocks[first:] = [known.get(id(e)) or Block(e) for e in entries[first:]]
        else:
            self._blocks += [Block(e) for e in entries[first:]]
        width = self.line_width
        for n, block in enumerate(self._blocks):
            if block.version != block.entry.version:
                block.draw(width, self.unfolded)
                first = min(first, n)
                if block.rough:
                    self.run_worker(self._settle(block), name="settle")
        self._lay_out(first)

    async def _settle(self, block: Block) -> None:
        """Lay an ended answer out whole, as it will look after a restart: a list that goes on behind a blank row needs
        to be seen as one. Beside the screen, for it takes 70 ms per 1,000 tokens."""
        await asyncio.sleep(SETTLE_AFTER)
        width, version = block.width, block.version
        strips = await asyncio.to_thread(entry_strips, block.entry, width, block.unfolded)
        if not block.rough or (width, version) != (block.width, block.version) or block not in self._blocks:
            return
        same = len(strips) == len(block.strips)
        block.strips, block.rough, block.stream = strips, False, None
        if same:
            self.refresh()
        else:
            self._hold_and_lay_out(self._blocks.index(block))

    def unfold(self) -> None:
        self.unfolded = not self.unfolded
        self._rewrap()

    def stay(self) -> None:
        self._following = self.max_scroll_y <= 0

    def follow(self) -> None:
        self._following = True
        self.scroll_to(y=self.max_scroll_y, animate=False)

    # ---- layout
    def _lay_out(self, first: int) -> None:
        first = min(first, len(self._starts))
        total = len(self.welcome)
        if first:
            total = self._starts[first - 1] + len(self._blocks[first - 1].strips)
        del self._starts[first:]
        for block in self._blocks[first:]:
            self._starts.append(total)
            total += len(block.strips)
        self._tail = [
            Strip(
                [
                    Segment("› ", theme.faint),
                    Segment(one_line(text, self.line_width - 12), theme.quiet),
                    Segment(f"  {kind}", theme.faint),
                ]
            )
            for text, kind in self._picture.queue
        ]
        if self._tail:
            self._tail += [Strip([Segment("  Up takes back what waits", theme.faint)]), BLANK]
        self._total = total + len(self._tail)
        self.virtual_size = Size(max(1, self.size.width - 1), self._total)
        if self._following:
            self._to_end()
            # the scroll bar appears with the next layout only, and until then there is nothing to scroll
            self.call_after_refresh(self._to_end)
        self.refresh()

    def _to_end(self) -> None:
        if self._following:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)

    def _rewrap(self) -> None:
        """At a new width or folding: what is visible at once, the rest when there is time."""
        width = self.line_width
        top = self.scroll_offset.y
        anchor = max(0, bisect_right(self._starts, top) - 1)
        rows = 0
        span = range(len(self._blocks) - 1, -1, -1) if self._following else range(anchor, len(self._blocks))
        for n in span:
            if rows > 2 * self.size.height:
                break
            self._blocks[n].draw(width, self.unfolded)
            rows += len(self._blocks[n].strips)
        self._lay_out(0)
        if not self._following and anchor < len(self._starts):
            self.scroll_to(y=self._starts[anchor], animate=False, immediate=True)
        if not self._rewrapping:
            self._rewrapping = True
            self.call_later(self._rewrap_rest)

    def _rewrap_rest(self) -> None:
        width, done, first = self.line_width, 0, None
        for n in range(len(self._blocks) - 1, -1, -1):
            if self._blocks[n].stale(width, self.unfolded):
                self._blocks[n].draw(width, self.unfolded)
                first, done = n, done + 1
                if done >= IDLE_BATCH:
                    break
        if first is not None:
            self._hold_and_lay_out(first)
        if done >= IDLE_BATCH:
            self.set_timer(0.02, self._rewrap_rest)
        else:
            self._rewrapping = False

    def _hold_and_lay_out(self, first: int) -> None:
        """What someone is reading stays where it is."""
        top = self.scroll_offset.y
        anchor = max(0, bisect_right(self._starts, top) - 1)
        inside = top - self._starts[anchor] if self._starts else 0
        self._lay_out(first)
        if not self._following and anchor < len(self._starts):
            self.scroll_to(y=self._starts[anchor] + inside, animate=False, immediate=True)

    def on_resize(self) -> None:
        if any(b.width != self.line_width for b in self._blocks[-1:]):
            self._rewrap()
        self.show()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value >= self.max_scroll_y:
            self._following = True

    # only what the user does ends the following; a layout may pass through any position
    def on_mouse_scroll_up(self) -> None:
        self.stay()

    def on_scroll_up(self) -> None:
        self.stay()

    def on_scroll_to(self) -> None:
        self.stay()

    # ---- lines
    def _strip(self, y: int) -> Strip:
        if y < len(self.welcome):
            return self.welcome[y]
        body = self._total - len(self._tail)
        if y >= body:
            return self._tail[y - body] if y < self._total else BLANK
        n = bisect_right(self._starts, y) - 1
        strips = self._blocks[n].strips
        offset = y - self._starts[n]
        return strips[offset] if offset < len(strips) else BLANK

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        row = y + self.scroll_offset.y
        if row >= self._total:
            return Strip.blank(width, base)
        strip = self._strip(row)
        line = Strip([Segment(" ")]) if not strip.cell_length else Strip([Segment(" "), *strip])
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(row)) is not None:
            line = _highlight(line, *span)
        return line.adjust_cell_length(width, base).apply_style(base).apply_offsets(0, row)

    # ---- selection
    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Only the rows that are selected are put together."""
        start = selection.start.y if selection.start is not None else 0
        end = min(self._total, selection.end.y + 1 if selection.end is not None else self._total)
        rows = [" " + self._strip(y).text.rstrip() for y in range(start, end)]
        if not rows:
            return None
        if selection.end is not None:
            rows[-1] = rows[-1][: selection.end.x]
        if selection.start is not None:
            rows[0] = rows[0][selection.start.x :]
        return "\n".join(r.removeprefix("   ") if n else r for n, r in enumerate(rows)).rstrip(), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


def _highlight(line: Strip, start: int, end: int) -> Strip:
    """`start` and `end` count characters; strips are cut at cells."""
    text = line.text
    left = cell_len(text[:start])
    right = line.cell_length if end == -1 else cell_len(text[:end])
    middle = Strip([Segment(s.text, (s.style or theme.ink) + theme.selected) for s in line.crop(left, right)])
    return Strip.join([line.crop(0, left), middle, line.crop(right, line.cell_length)])
