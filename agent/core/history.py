"""The conversation as the model sees it: append-only, and always legal (each call has exactly one result before
anything else follows)."""

from __future__ import annotations

from collections.abc import Iterable

from agent.events import AssistantAdded, Compacted, DurableEvent, ResultAdded, TurnStarted
from agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


class History:
    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = list(messages)

    @classmethod
    def from_events(cls, events: Iterable[DurableEvent]) -> History:
        history = cls()
        for event in events:
            match event:
                case TurnStarted() | AssistantAdded() | ResultAdded():
                    history.add(event.message)
                case Compacted(summary=summary):
                    history._messages = [UserMessage("summary", summary)]
                case _:
                    pass
        return history

    def add(self, message: Message) -> None:
        """A result must belong to an open call; raises ValueError otherwise."""
        if isinstance(message, ToolMessage) and message.call_id not in {c.id for c in self.open_calls()}:
            raise ValueError(f"result for {message.call_id!r}, which is no open call")
        self._messages.append(message)

    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last reply that have no result yet, in the model's order."""
        done: set[str] = set()
        for message in reversed(self._messages):
            if isinstance(message, AssistantMessage):
                return tuple(c for c in message.calls if c.id not in done)
            if isinstance(message, ToolMessage):
                done.add(message.call_id)
        return ()

    def call_ids(self) -> set[str]:
        return {c.id for m in self._messages if isinstance(m, AssistantMessage) for c in m.calls}

    def view(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def __len__(self) -> int:
        return len(self._messages)
