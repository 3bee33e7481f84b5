"""Forms beside the calls of the model: may this server start, what does it want to know. Plain data with an id; the
answer is a method call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from agent.events import Event
from agent.forms import Form, FormAsked, FormSettled


@dataclass(frozen=True, slots=True)
class Filled:
    """`choice`: the value of one of the form's choices. `content`: what was written into its fields, by name; a
    field that was left empty is not in it."""

    choice: str
    content: Mapping[str, str | float | bool | list[str]] = field(
        default_factory=dict[str, str | float | bool | list[str]]
    )


class Forms:
    """`publish` takes a form to whoever shows it."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._ids = count(1)
        self._waiting: dict[str, asyncio.Future[Filled]] = {}

    async def ask(self, form: Form) -> Filled:
        """May be cancelled; the form is then gone."""
        request_id = f"form-{next(self._ids)}"
        future = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            self._publish(FormAsked(request_id, form))
            return await future
        finally:
            del self._waiting[request_id]
            self._publish(FormSettled(request_id))

    def fill(self, request_id: str, choice: str, content: Mapping[str, str | float | bool | list[str]]) -> bool:
        """False when no such form is open (any more)."""
        future = self._waiting.get(request_id)
        if future is None or future.done():
            return False
        future.set_result(Filled(choice, content))
        return True
