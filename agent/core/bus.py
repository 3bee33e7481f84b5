"""One stream of events, any number of readers, none of whom can slow the loop. Knows nothing of what events mean
beyond which of them replace each other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from agent.events import (
    DURABLE,
    AssistantAdded,
    CallDelta,
    Compacted,
    Compacting,
    DurableEvent,
    Event,
    PermissionAsked,
    PermissionSettled,
    PrefillProgress,
    ProcessesChanged,
    QuestionAsked,
    QueueChanged,
    ResultAdded,
    ServerChanged,
    ShellEnded,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    TurnEnded,
)
from agent.forms import FormAsked, FormSettled
from agent.processes import SHELL_CALL


class Subscription:
    """A mailbox that merges what it can while its reader is busy. Iterate it; `close` ends the iteration."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._pending: deque[Event] = deque(events)
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        if self._closed:
            return
        if self._pending and (joined := merge(self._pending[-1], event)) is not None:
            self._pending[-1] = joined
        else:
            self._pending.append(event)
        self._wake.set()

    def close(self) -> None:
        """What is pending is still delivered."""
        self._closed = True
        self._wake.set()

    @property
    def closed(self) -> bool:
        return self._closed

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        while not self._pending:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._pending.popleft()


class Bus:
    """Keeps the durable past and what is open now, so that a front end may attach at any moment."""

    def __init__(self, past: Iterable[DurableEvent] = ()) -> None:
        self._past: list[DurableEvent] = list(past)
        self._open: list[Event] = []
        self._subscriptions: list[Subscription] = []

    @property
    def past(self) -> tuple[DurableEvent, ...]:
        return tuple(self._past)

    def progress_of(self, call_id: str) -> str:
        """What a call that is still open has said so far."""
        pieces = [e for e in self._open if isinstance(e, ToolProgress) and e.call_id == call_id]
        tails = [e.tail for e in pieces if e.tail is not None]
        return "".join(e.text for e in pieces) + (tails[-1] if tails else "")

    def subscribe(self) -> Subscription:
        subscription = Subscription([*self._past, *self._open])
        self._subscriptions.append(subscription)
        return subscription

    def publish(self, event: Event) -> None:
        if isinstance(event, DURABLE):
            self._past.append(event)
        self._open = [e for e in self._open if not _closes(event, e)]
        if isinstance(event, _OPENING) and event != Compacting(None):
            if self._open and (joined := merge(self._open[-1], event)) is not None:
                self._open[-1] = joined
            else:
                self._open.append(event)
        self._subscriptions = [s for s in self._subscriptions if not s.closed]
        for subscription in self._subscriptions:
            subscription.put(event)

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()


_OPENING = (
    StepStarted,
    TextDelta,
    ThinkingDelta,
    CallDelta,
    PrefillProgress,
    Compacting,
    PermissionAsked,
    QuestionAsked,
    FormAsked,
    ToolProgress,
    ProcessesChanged,
    QueueChanged,
    ServerChanged,
)
_REPLY = (StepStarted, TextDelta, ThinkingDelta, CallDelta, PrefillProgress)


def _closes(event: Event, old: Event) -> bool:
    """Does `event` end what `old` opened?"""
    match event:
        case AssistantAdded():
            return isinstance(old, _REPLY)
        case TurnEnded():
            beside = isinstance(old, ToolProgress) and old.call_id.startswith(SHELL_CALL)
            return not beside and not isinstance(old, ServerChanged | QueueChanged | ProcessesChanged | FormAsked)
        case PermissionSettled():
            return isinstance(old, PermissionAsked) and old.plan.call_id == event.call_id
        case FormSettled():
            return isinstance(old, FormAsked) and old.request_id == event.request_id
        case ResultAdded() | ShellEnded():
            return isinstance(old, ToolProgress | QuestionAsked) and old.call_id == event.call_id
        case ServerChanged():
            return isinstance(old, ServerChanged)
        case QueueChanged():
            return isinstance(old, QueueChanged)
        case ProcessesChanged():
            return isinstance(old, ProcessesChanged)
        case StepStarted():
            return isinstance(old, _REPLY)
        case Compacted():
            return isinstance(old, Compacting | PrefillProgress)
        case Compacting():
            return isinstance(old, Compacting) or (event.words is None and isinstance(old, PrefillProgress))
        case _:
            return False


def merge(earlier: Event, later: Event) -> Event | None:
    """One event that says what both say, or None where both are needed. Lets a slow reader catch up without loss."""
    match earlier, later:
        case TextDelta(message_id=a), TextDelta(message_id=b) if a == b:
            return replace(earlier, text=earlier.text + later.text)
        case ThinkingDelta(message_id=a), ThinkingDelta(message_id=b) if a == b:
            return replace(earlier, text=earlier.text + later.text)
        case CallDelta(message_id=a, index=i), CallDelta(message_id=b, index=j) if (a, i) == (b, j):
            return replace(earlier, text=earlier.text + later.text)
        case ToolProgress(call_id=a), ToolProgress(call_id=b) if a == b:
            tail = earlier.tail if later.tail is None else later.tail
            return replace(earlier, text=earlier.text + later.text, tail=tail)
        case PrefillProgress(message_id=a), PrefillProgress(message_id=b) if a == b:
            return later
        case (
            (ServerChanged(), ServerChanged())
            | (QueueChanged(), QueueChanged())
            | (ProcessesChanged(), ProcessesChanged())
            | (Compacting(), Compacting())
        ):
            return later
        case _:
            return None
