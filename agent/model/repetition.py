"""Notices a reply that repeats itself without end, while it streams. Pure; knows nothing of servers."""

from __future__ import annotations

RUN = 400  # the same visible character so often in a row: no rule, no table is that wide
BLANKS = 4000  # blank characters in a row
WINDOW = 4000  # characters that must be made of one repeated piece
LONGEST = 400  # characters of that piece; WINDOW holds it ten times
LOOK_EVERY = 200  # characters between looks


class RepetitionGuard:
    """Feed it what streams; `feed` says what is being repeated once that has gone on for too long, else ""."""

    def __init__(self) -> None:
        self._tail = ""
        self._unseen = 0

    def feed(self, text: str) -> str:
        self._tail = (self._tail + text)[-WINDOW:]
        self._unseen += len(text)
        if self._unseen < LOOK_EVERY:
            return ""
        self._unseen = 0
        return self._look()

    def _look(self) -> str:
        tail = self._tail
        if len(tail) >= RUN and not tail[-1].isspace() and tail[-RUN:] == tail[-1] * RUN:
            return tail[-1]
        if len(tail) < WINDOW:
            return ""
        if not tail[-BLANKS:].strip():
            return "blank"
        for period in range(1, LONGEST + 1):
            if tail[-1] == tail[-1 - period] and tail[period:] == tail[:-period]:
                return tail[-period:]
        return ""
