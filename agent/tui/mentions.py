"""Completion of `@name` while it is written. Asks the session, which may take a moment; what it said last stays in
sight meanwhile as far as it still fits, so that the menu neither flickers nor completes what is no longer meant."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from agent.core.mentions import Mentions, being_written, spelled
from agent.protocols import Offered
from agent.tui.completion import Offer


class MentionOffers:
    """`source`: of the running session; None before there is one. `changed` hears that there is more to offer."""

    def __init__(
        self,
        source: Callable[[], Mentions | None],
        changed: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._source = source
        self._changed = changed
        self._spawn = spawn
        self._wanted: str | None = None  # what is or was asked for
        self._found: Sequence[Offered] = ()
        self._asking = False

    def __call__(self, text: str, cursor: int) -> Sequence[Offer] | None:
        """None where no mention is being written."""
        place = being_written(text, cursor)
        if place is None:
            self._wanted, self._found = None, ()
            return None
        start, written = place
        if written != self._wanted:
            self._wanted = written
            self._found = [one for one in self._found if written.lower() in one.name.lower()]
            if not self._asking and (mentions := self._source()) is not None:
                self._asking = True
                self._spawn(self._ask(mentions))
        offers = [Offer(start, cursor, spelled(one.name), one.about, more=one.more) for one in self._found]
        return [offer for offer in offers if offer.text != text[start:cursor]]

    async def _ask(self, mentions: Mentions) -> None:
        """One question at a time: the last one counts."""
        try:
            while (wanted := self._wanted) is not None:
                found = await mentions.offers(wanted)
                if wanted == self._wanted:
                    self._found = found
                    break
        finally:
            self._asking = False
        self._changed()
