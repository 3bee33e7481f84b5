"""The model's words as Markdown. While they stream, closed blocks are drawn once and only the open tail again."""

from __future__ import annotations

import re

from rich.markdown import Markdown
from rich.segment import Segment
from rich.syntax import Syntax
from textual.strip import Strip

from agent.tui.cells.draw import console_for, safe, strips
from agent.tui.theme import CODE_THEME, TEXT

INDENT = 2
_FENCE = re.compile(r"(?:^|\n)[ ]{0,3}(```+|~~~+)([^\n`]*)\n")


def answer_strips(text: str, width: int) -> list[Strip]:
    """A finished answer, whole."""
    return _markdown(text, width)


def _markdown(text: str, width: int) -> list[Strip]:
    shown = Markdown(safe(text), code_theme=CODE_THEME, style=TEXT, hyperlinks=False)
    out = strips(shown, width, INDENT)
    while out and not out[-1].text.strip():
        out.pop()
    return out


class StreamedAnswer:
    """Of one answer at one width. `feed` takes the whole text so far; it only grows."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._taken = 0
        self._buffer = ""
        self._fence = ""
        self._syntax: Syntax | None = None
        self._closed: list[Strip] = []

    def feed(self, text: str) -> list[Strip]:
        self._buffer += text[self._taken :]
        self._taken = len(text)
        while self._fenced_line() if self._fence else self._block():
            pass
        tail = self._tail()
        return [*self._closed, *tail]

    def _fenced_line(self) -> bool:
        line, newline, rest = self._buffer.partition("\n")
        if not newline:
            return False
        self._buffer = rest
        if line.strip() == self._fence:
            self._fence = ""
            self._closed.append(Strip.blank(1))
        else:
            self._closed.append(self._code(line))
        return True

    def _block(self) -> bool:
        opening = _FENCE.search(self._buffer)
        blank = self._buffer.find("\n\n")
        if opening and (blank < 0 or opening.start() <= blank):
            self._close(self._buffer[: opening.start()])
            self._fence = opening[1]
            self._syntax = Syntax("", opening[2].strip() or "text", theme=CODE_THEME)
            self._buffer = self._buffer[opening.end() :]
            return True
        if blank >= 0:
            self._close(self._buffer[:blank])
            self._buffer = self._buffer[blank + 2 :]
            return True
        return False

    def _close(self, block: str) -> None:
        if block.strip():
            self._closed += [*_markdown(block, self._width), Strip.blank(1)]

    def _tail(self) -> list[Strip]:
        if not self._buffer.strip():
            return []
        return [self._code(self._buffer)] if self._fence else _markdown(self._buffer, self._width)

    def _code(self, line: str) -> Strip:
        assert self._syntax is not None
        width = max(4, self._width - INDENT - 1)
        segments = [s for s in self._syntax.highlight(safe(line)).render(console_for(width)) if s.text != "\n"]
        return Strip([Segment(" " * INDENT), *Strip(segments).crop(0, width)])
