"""Whether a request that failed is made again, and after how long. Pure; the whole policy stands here.

no connection, 503       again at 0.5 and 2 s; a server that says 503 is waited for
reply broke off          once again: nothing of it has been run
unreadable reply (500)   again: with other dice it can mostly be read
stalled, server idle     once again: the request was lost
all else                 never: the same question would get the same answer
"""

from __future__ import annotations

import re

from agent.errors import ModelFault, ServerUnavailable

PAUSES = (0.5, 2.0)  # seconds; as many as there are new attempts
BUSY_PAUSE = 2.0  # seconds between two looks at a server that says 503
BUSY_LIMIT = 120.0  # seconds; one that has no model yet is waited for before, so this one has no free slot


ADVICE = re.compile(r"(?<=\.) (?:Send again|Check that it runs)\b[^.]*\.$")


def cause(fault: ModelFault) -> str:
    """Without the advice at its end: what it tells the user to do is being done."""
    return ADVICE.sub("", str(fault))


class Retries:
    """Of one step."""

    def __init__(self) -> None:
        self.attempt = 0
        self._broken = False
        self._waited = 0.0

    def after(self, fault: ModelFault, *, started: bool) -> float | None:
        """Seconds until the next attempt; None where there is none. `started`: some of the reply had arrived."""
        if not fault.retryable or (started and self._broken):
            return None
        if isinstance(fault, ServerUnavailable) and fault.busy and not started:
            self._waited += BUSY_PAUSE
            self.attempt += self._waited == BUSY_PAUSE
            return BUSY_PAUSE if self._waited <= BUSY_LIMIT else None
        if self.attempt >= len(PAUSES):
            return None
        self._broken = self._broken or started
        self.attempt += 1
        return PAUSES[self.attempt - 1]
