"""The conversation as the model sees it: append-only but for a message that could not be sent, and always legal (each
call has exactly one result before anything else follows). What a journal holds is made to fit first: a file may have
lost or doubled any of its lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Literal

from agent.errors import ContextOverflow
from agent.events import (
    AssistantAdded,
    CallPlanned,
    Compacted,
    DurableEvent,
    PermissionSettled,
    ResultAdded,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

LOST_RESULT = "The result of this call was lost."


class History:
    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._call_ids: set[str] = set()

    @classmethod
    def from_events(cls, events: Iterable[DurableEvent]) -> History:
        """`events` must fit each other."""
        history = cls()
        for event in events:
            match event:
                case TurnStarted() | AssistantAdded() | ResultAdded():
                    history.add(event.message)
                case TurnEnded(kind=ContextOverflow.kind):
                    history.take_back()
                case Compacted():
                    history.compact(event)
                case _:
                    pass
        return history

    def add(self, message: Message) -> None:
        """A result must belong to an open call; raises ValueError otherwise."""
        if isinstance(message, ToolMessage) and message.call_id not in {c.id for c in self.open_calls()}:
            raise ValueError(f"result for {message.call_id!r}, which is no open call")
        if isinstance(message, AssistantMessage):
            self._call_ids.update(c.id for c in message.calls)
        self._messages.append(message)

    def compact(self, event: Compacted) -> None:
        """A new epoch: only what the event holds is left of what was said so far."""
        self._messages = list(event.messages) or [UserMessage("summary", event.summary)]

    @property
    def unanswered(self) -> UserMessage | None:
        """The user's message that nothing has followed yet."""
        last = self._messages[-1] if self._messages else None
        return last if isinstance(last, UserMessage) else None

    def take_back(self) -> UserMessage | None:
        """The unanswered message leaves the conversation: it was too big to be sent, and so would be all that follows
        it."""
        if message := self.unanswered:
            self._messages.pop()
        return message

    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last reply that have no result yet, in the model's order."""
        done: set[str] = set()
        for message in reversed(self._messages):
            if isinstance(message, AssistantMessage):
                return tuple(c for c in message.calls if c.id not in done)
            if isinstance(message, ToolMessage):
                done.add(message.call_id)
        return ()

    @property
    def call_ids(self) -> Set[str]:
        """Of all calls there ever were, those of earlier epochs too."""
        return self._call_ids

    def view(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def __len__(self) -> int:
        return len(self._messages)


def last_id(past: Iterable[DurableEvent]) -> int:
    """The highest number of a message so far."""
    ids = [e.message.id for e in past if isinstance(e, TurnStarted | AssistantAdded)]
    return max((int(i[1:]) for i in ids if i[1:].isdecimal()), default=1)


def last_setting(past: Iterable[DurableEvent], key: Literal["mode", "thinking"]) -> str | None:
    return next((e.value for e in reversed(list(past)) if isinstance(e, SettingsChanged) and e.key == key), None)


def fitting(events: Iterable[DurableEvent]) -> Iterator[DurableEvent]:
    """`events` of a journal without those that do not fit the ones before them: a line twice, what belongs to no turn
    or to no open call. A call that never got its result gets one before the conversation goes on."""
    seen: set[DurableEvent] = set()
    names: dict[str, str] = {}  # tools of all calls so far
    waiting: list[str] = []  # calls without a result
    running = False
    for event in events:
        match event:
            case TurnStarted() if event not in seen:
                running = True
            case AssistantAdded(message=message) if running and event not in seen:
                ids = [c.id for c in message.calls]
                if len({*ids, *names}) < len(ids) + len(names):
                    continue
            case CallPlanned() | PermissionSettled() if event.call_id in waiting:
                pass
            case ResultAdded(call_id=call_id) if call_id in waiting:
                waiting.remove(call_id)
            case TurnEnded() if running:
                running = False
            case TurnStarted() | AssistantAdded() | CallPlanned() | PermissionSettled() | ResultAdded() | TurnEnded():
                continue
            case _:
                pass
        if isinstance(event, TurnStarted | AssistantAdded | TurnEnded | Compacted):
            yield from (ResultAdded(i, names[i], LOST_RESULT, failed=True, seconds=0.0) for i in waiting)
            waiting = []
        if isinstance(event, TurnStarted | AssistantAdded):
            seen.add(event)
        if isinstance(event, AssistantAdded):
            waiting = [c.id for c in event.message.calls]
            names |= {c.id: c.name for c in event.message.calls}
        yield event
