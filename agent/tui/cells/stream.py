"""A growing answer as strips: a closed block is rendered once, only the open tail again at each flush; in an open
fence each finished line is final. Pure: text and width in, strips out."""

from __future__ import annotations

import re

from rich.segment import Segment
from rich.syntax import Syntax
from textual.strip import Strip

from agent.tui.cells.markdown import code_rows, markdown_rows, syntax
from agent.tui.cells.paper import BLANK, clean, framed

_FENCE = re.compile(r"(?:^|\n) {0,3}(```+|~~~+)([^\n`]*)\n")
MARGIN = Segment("  ")
TAIL_MOST = 4000  # characters of an open paragraph that are laid out as Markdown at each flush


def answer_strips(text: str, width: int) -> list[Strip]:
    """A closed answer, whole."""
    return framed(markdown_rows(clean(text).strip("\n"), max(1, width - 2)), MARGIN, MARGIN)


class StreamedAnswer:
    """Feed it the whole text so far; it looks only at what is new."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._inner = max(1, width - 2)
        self.fed = ""
        self._buffer = ""
        self._fence = ""
        self._highlighter: Syntax | None = None
        self.closed: list[Strip] = []
        self.tail: list[Strip] = []

    def feed(self, text: str) -> list[Strip]:
        """All strips for `text`, which begins with what was fed before."""
        self._buffer += text[len(self.fed) :]
        self.fed = text
        while self._take_line() if self._fence else self._take_block():
            pass
        self.tail = self._open_tail()
        return self.closed + self.tail

    def _take_line(self) -> bool:
        line, newline, rest = self._buffer.partition("\n")
        if not newline:
            return False
        self._buffer = rest
        if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
            self._fence = ""
            self.closed.append(BLANK)
        else:
            self.closed += self._code(line)
        return True

    def _take_block(self) -> bool:
        opening = _FENCE.search(self._buffer)
        blank = self._buffer.find("\n\n")
        if opening and (blank < 0 or opening.start() <= blank):
            self._close(self._buffer[: opening.start()])
            self._fence = opening.group(1)
            self._highlighter = syntax("", opening.group(2).strip().split(" ")[0])
            self._buffer = self._buffer[opening.end() :]
            return True
        if blank >= 0:
            self._close(self._buffer[:blank])
            self._buffer = self._buffer[blank + 2 :]
            return True
        return False

    def _close(self, block: str) -> None:
        if block.strip():
            self.closed += [*self._markdown(block), BLANK]

    def _open_tail(self) -> list[Strip]:
        if not self._buffer.strip():
            return []
        return self._code(self._buffer) if self._fence else self._markdown(self._buffer[-TAIL_MOST:])

    def _markdown(self, block: str) -> list[Strip]:
        return framed(markdown_rows(clean(block).strip("\n"), self._inner), MARGIN, MARGIN)

    def _code(self, line: str) -> list[Strip]:
        assert self._highlighter is not None
        return framed(code_rows(clean(line), self._highlighter, self._inner), MARGIN, MARGIN)
