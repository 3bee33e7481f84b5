"""Server-sent events from bytes. Pure, and forgiving about framing; knows nothing of what is in the events."""

from __future__ import annotations

import re
from collections.abc import Iterator

DONE = "[DONE]"
STRAY_LIMIT = 65536  # characters kept of a body that is no event stream, to read an error out of it
_LINE_END = re.compile(rb"\r\n|\r|\n")  # and no other: U+2028 and U+0085 are text


class EventReader:
    """`seen`: an event has come. `stray`: lines that belong to no event, which is all of a body in another format."""

    def __init__(self) -> None:
        self.seen = False
        self.stray = ""
        self._line = bytearray()
        self._after_cr = False
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[str]:
        """The data of each event that is now complete."""
        if not piece:
            return
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_cr = piece.endswith(b"\r")
        *lines, rest = _LINE_END.split(piece)
        for line in lines:
            self._line += line
            whole = self._line.decode("utf-8", "replace")
            self._line.clear()
            yield from self._read(whole)
        self._line += rest

    def finish(self) -> Iterator[str]:
        """The last event, if the stream ended without the empty line that closes it; it may be cut short."""
        yield from self._read(self._line.decode("utf-8", "replace"))
        yield from self._read("")

    def _read(self, line: str) -> Iterator[str]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            data, self._data = "\n".join(self._data), []
            if data.strip():
                self.seen = True
                yield data
        elif name == "data":
            self._data.append(value)
        elif name == "error":  # older llama-servers report a failure in a field of its own
            self.seen = True
            yield f'{{"error": {value}}}'
        elif name not in ("", "event", "id", "retry"):
            self.stray = (self.stray + line + "\n")[:STRAY_LIMIT]
