"""Keeps what lasts of a session, as long as it can be kept, and says so once when it no longer can. Knows no files."""

from __future__ import annotations

from collections.abc import Callable

from agent.events import DURABLE, Event
from agent.messages import Prefix
from agent.protocols import Clock, Journal

LOOK_EVERY = 1.0  # seconds between looks at the record while nothing is written to it


class Record:
    """`fixed`: the prefix that the journal knows of. `complain` takes a sentence for the user."""

    def __init__(self, journal: Journal, clock: Clock, complain: Callable[[str], None], fixed: Prefix | None) -> None:
        self._fixed = fixed
        self._journal, self._clock, self._complain = journal, clock, complain
        self._broken = False
        self._looked = 0.0

    def saw(self, event: Event, prefix: Prefix) -> None:
        """An event that does not last gives the occasion to look after those that do: a reply may stream for
        minutes."""
        if self._broken:
            return
        try:
            if isinstance(event, DURABLE):
                if prefix != self._fixed:
                    self._journal.fix(prefix)
                    self._fixed = prefix
                self._journal.append(event)
            elif (now := self._clock.monotonic()) - self._looked >= LOOK_EVERY:
                self._looked = now
                self._journal.look()
        except OSError as error:
            self._broken = True
            self._complain(f"This session is no longer saved: {error.strerror or error}.")
