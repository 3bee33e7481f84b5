"""Questions that wait for the user. A question is plain data with an id; the answer is a method call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from agent.core.permissions import Ruling
from agent.events import CallPlanned, Decision, Event, PermissionAsked, QuestionAsked


class Approvals:
    """`publish` takes the question to whoever shows it."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._ids = count(1)
        self._permissions: dict[str, asyncio.Future[Decision]] = {}
        self._questions: dict[str, asyncio.Future[str]] = {}

    async def ask(self, plan: CallPlanned, ruling: Ruling, *, keeps: bool) -> tuple[str, Decision]:
        """The question's id and the decision. May be cancelled; the question is then gone. `keeps`: rules can be kept
        for later sessions."""
        request_id = f"ask-{next(self._ids)}"
        future = self._permissions[request_id] = asyncio.get_running_loop().create_future()
        try:
            always = ruling.offers if keeps else ()
            self._publish(PermissionAsked(request_id, plan, ruling.why, ruling.session_offers, always))
            return request_id, await future
        finally:
            del self._permissions[request_id]

    async def question(self, call_id: str, question: str, options: tuple[str, ...]) -> str:
        """The user's answer. May be cancelled."""
        request_id = f"ask-{next(self._ids)}"
        future = self._questions[request_id] = asyncio.get_running_loop().create_future()
        try:
            self._publish(QuestionAsked(request_id, call_id, question, options))
            return await future
        finally:
            del self._questions[request_id]

    def answer(self, request_id: str, decision: Decision) -> bool:
        """False when no such question is open (any more)."""
        return _settle(self._permissions.get(request_id), decision)

    def reply(self, request_id: str, text: str) -> bool:
        """False when no such question is open (any more)."""
        return _settle(self._questions.get(request_id), text)


def _settle(future: asyncio.Future[Decision] | asyncio.Future[str] | None, value: Decision | str) -> bool:
    if future is None or future.done():
        return False
    future.set_result(value)  # type: ignore[arg-type]
    return True
