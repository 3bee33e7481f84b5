"""The one place that cuts text for the model, and says how to get the rest."""

from __future__ import annotations

import re

HEAD, TAIL = 6_000, 14_000  # characters of a long output: how it began, and (mostly) how it ended
LINE = 2_000  # characters of one line

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)


def plain(text: str) -> str:
    """Without escape sequences and control characters; a carriage return that rewrites a line keeps its last form."""
    text = _CONTROL.sub("", text.replace("\r\n", "\n"))
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] if "\r" in line else line for line in text.split("\n"))


def short_line(line: str) -> str:
    return line if len(line) <= LINE else f"{line[:LINE]} [… {len(line) - LINE} more characters]"


class Window:
    """Keeps the start and the end of a stream of bytes, however long it is."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]

    def with_end(self, data: bytes) -> Window:
        """A copy with more at its end."""
        other = Window()
        other._head, other._tail, other.size = self._head[:], self._tail[:], self.size
        other.add(data)
        return other

    @property
    def cut(self) -> bool:
        return self.size > len(self._head) + len(self._tail) or len(self._tail) > TAIL

    def text(self, note: str) -> str:
        """`note` stands where something was left out."""
        if not self.cut:
            return plain((self._head + self._tail).decode("utf-8", "replace"))
        head = plain(self._head.decode("utf-8", "replace"))
        tail = plain(self._tail[-TAIL:].decode("utf-8", "replace"))
        return f"{head}\n[{note}]\n{tail}"
