"""Folds the pieces of one streamed reply into a message, and says what is worth showing meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from agent.events import CallDelta, Event, PrefillProgress, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Finish, Timings, ToolCall, Usage
from agent.protocols import CallChunk, FinishChunk, ModelChunk, PrefillChunk, SentChunk, TextChunk, ThinkingChunk


@dataclass(slots=True)
class _OpenCall:
    index: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


class Assembler:
    """One per reply. `taken`: call ids already used in the conversation; empty or repeated ids are replaced."""

    def __init__(self, message_id: str, taken: Set[str]) -> None:
        self._id = message_id
        self._taken = taken
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_OpenCall] = []
        self._finish: FinishChunk | None = None
        self.sent: Mapping[str, Any] | None = None  # the request it answers, as it went out

    @property
    def started(self) -> bool:
        """Has anything of the reply itself arrived?"""
        return bool(self._text or self._thinking or self._calls)

    @property
    def finish(self) -> FinishChunk | None:
        return self._finish

    def feed(self, chunk: ModelChunk) -> Event | None:
        match chunk:
            case TextChunk(text=text):
                self._text.append(text)
                return TextDelta(self._id, text)
            case ThinkingChunk(text=text):
                self._thinking.append(text)
                return ThinkingDelta(self._id, text)
            case CallChunk():
                return self._feed_call(chunk)
            case PrefillChunk(total=total, cache=cache, processed=processed, time_ms=ms):
                return PrefillProgress(self._id, total, cache, processed, ms)
            case FinishChunk():
                self._finish = chunk
                return None
            case SentChunk():
                self.sent = chunk.body
                return None

    def _feed_call(self, chunk: CallChunk) -> CallDelta:
        call = next((c for c in reversed(self._calls) if c.index == chunk.index), None)
        if call is None or (chunk.id and call.id and chunk.id != call.id):  # some servers give each call index 0
            call = _OpenCall(chunk.index)
            self._calls.append(call)
        call.id = call.id or chunk.id
        if chunk.name and chunk.name != call.name and not call.arguments:
            call.name += chunk.name
        if chunk.arguments:
            call.arguments.append(chunk.arguments)
        return CallDelta(self._id, self._calls.index(call), call.name, chunk.arguments)

    def message(self, finish: Finish, *, keep_calls: bool) -> AssistantMessage:
        """`keep_calls` False: they were still being written, and are only there to be seen."""
        calls: list[ToolCall] = []
        here: set[str] = set()
        for number, call in enumerate(self._calls):
            is_new = call.id and call.id not in self._taken and call.id not in here
            call_id = call.id if is_new else f"call_{self._id}_{number}"
            here.add(call_id)
            calls.append(ToolCall(call_id, call.name, "".join(call.arguments)))
        return AssistantMessage(
            self._id,
            "".join(self._text),
            "".join(self._thinking),
            tuple(calls) if keep_calls else (),
            finish,
            self._finish.usage if self._finish else Usage(),
            self._finish.timings if self._finish else Timings(),
            cut=() if keep_calls else tuple(calls),
        )
