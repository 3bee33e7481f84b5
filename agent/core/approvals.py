"""Questions that wait for the user. A question is plain data with an id; the answer is a method call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from agent.events import CallPlanned, Decision, Event, PermissionAsked


class Approvals:
    """`publish` takes the question to whoever shows it."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._ids = count(1)
        self._waiting: dict[str, asyncio.Future[Decision]] = {}

    async def ask(self, plan: CallPlanned) -> tuple[str, Decision]:
        """The question's id and the decision. May be cancelled; the question is then gone."""
        request_id = f"ask-{next(self._ids)}"
        future = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            self._publish(PermissionAsked(request_id, plan))
            return request_id, await future
        finally:
            del self._waiting[request_id]

    def answer(self, request_id: str, decision: Decision) -> bool:
        """False when no such question is open (any more)."""
        future = self._waiting.get(request_id)
        if future is None or future.done():
            return False
        future.set_result(decision)
        return True
