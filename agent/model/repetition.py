"""Notices a reply that repeats itself without end, while it streams. Pure; knows nothing of servers."""

from __future__ import annotations

RUN = 1000  # the same sign so often in a row: no rule, no table is that wide (letters and digits may be data)
WINDOW = 16_000  # characters that must be made of one repeated piece, or of blanks
LONGEST = 800  # characters of that piece; WINDOW holds it twenty times
PIECE = 2000  # characters; what comes in larger pieces is no model that writes token by token
LOOK_EVERY = 200  # characters between looks


class RepetitionGuard:
    """Feed it what streams; `feed` says what is being repeated once that has gone on for too long, else ""."""

    def __init__(self) -> None:
        self._tail = ""
        self._unseen = 0

    def feed(self, text: str) -> str:
        if len(text) > PIECE:
            self._tail = ""
            return ""
        self._tail = (self._tail + text)[-WINDOW:]
        self._unseen += len(text)
        if self._unseen < LOOK_EVERY:
            return ""
        self._unseen = 0
        return self._look()

    def _look(self) -> str:
        tail = self._tail
        if len(tail) >= RUN and not tail[-1].isspace() and not tail[-1].isalnum() and tail[-RUN:] == tail[-1] * RUN:
            return tail[-1]
        if len(tail) < WINDOW:
            return ""
        if not tail.strip():
            return tail[-1]
        for period in range(1, LONGEST + 1):
            if tail[-1] == tail[-1 - period] and tail[period:] == tail[:-period]:
                return tail[-period:]
        return ""
