"""Stand-ins at the core's edges: a model that plays a script and tools whose behaviour a test sets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel

from agent.core.session import Session
from agent.errors import ModelFault
from agent.events import DurableEvent, Endpoint, PlanKind
from agent.messages import Prefix, Timings, ToolOutput, Usage
from agent.model.tokens import Tokens
from agent.protocols import (
    Arguments,
    CallChunk,
    FinishChunk,
    Journal,
    ModelChunk,
    ModelRequest,
    Plan,
    TextChunk,
    ToolContext,
)

Step: TypeAlias = "ModelChunk | ModelFault | asyncio.Event"


def text(words: str) -> list[Step]:
    """An answer in words, a chunk each."""
    return [*(TextChunk(w) for w in words.split(" ")), finish("stop", words.count(" ") + 1)]


def call(name: str, call_id: str = "", index: int = 0, **arguments: Any) -> CallChunk:
    return CallChunk(index, call_id, name, json.dumps(arguments))


def calls(*chunks: CallChunk, say: str = "") -> list[Step]:
    return [*([TextChunk(say)] if say else []), *chunks, finish("tool_calls", 5)]


def finish(reason: Any, generated: int = 1) -> FinishChunk:
    timings = Timings(
        cache_n=7, prompt_n=3, prompt_ms=10.0, predicted_n=generated, predicted_ms=20.0, draft_n=4, draft_n_accepted=2
    )
    return FinishChunk(reason, Usage(10, 7, generated), timings)


class ScriptedModel:
    """Plays one list of steps a request: chunks are yielded, faults raised, an asyncio.Event is waited for."""

    def __init__(self, *replies: list[Step]) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        self.requests.append(request)
        steps = self.replies.pop(0) if self.replies else text("nothing more to say")
        try:
            for step in steps:
                await asyncio.sleep(0)
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, ModelFault):
                    raise step
                else:
                    yield step
        finally:
            self.closed += 1


class AnyArguments(BaseModel):
    value: str = ""


class FakeTool:
    """`act` gets the value and the context; returns text, or raises."""

    description = "does what the test says"
    params = AnyArguments

    def __init__(
        self,
        name: str = "bash",
        act: Callable[[str, ToolContext], str] = lambda value, ctx: f"ran {value}",
        kind: PlanKind = "execute",
        hang: asyncio.Event | None = None,
        outside: bool = False,
    ) -> None:
        self.name = name
        self.kind: PlanKind = kind
        self._act = act
        self._hang = hang
        self._outside = outside
        self.ran: list[str] = []

    def plan(self, params: AnyArguments) -> Plan:
        return Plan(self.kind, f"{self.name} {params.value}", command=params.value, outside=self._outside)

    async def run(self, params: AnyArguments, ctx: ToolContext) -> ToolOutput:
        ctx.progress("working ")
        await asyncio.sleep(0)
        ctx.progress("hard")
        if self._hang is not None:
            await self._hang.wait()
        self.ran.append(params.value)
        return ToolOutput(self._act(params.value, ctx))


class MemoryJournal:
    session_id = "test-session"

    def __init__(self, fail: OSError | None = None) -> None:
        self.events: list[DurableEvent] = []
        self.prefix: Prefix | None = None
        self._fail = fail
        self.closed = False

    def append(self, event: DurableEvent) -> None:
        if self._fail is not None:
            raise self._fail
        self.events.append(event)

    def look(self) -> None:
        pass

    def fix(self, prefix: Prefix) -> None:
        if self._fail is not None:
            raise self._fail
        self.prefix = prefix

    def close(self) -> None:
        self.closed = True


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class StrictCalls:
    """Reads nothing but a JSON object."""

    def arguments(self, raw: str) -> Arguments:
        try:
            value = json.loads(raw)
        except ValueError:
            value = None
        return Arguments(value if isinstance(value, dict) else None, fault="they are not a JSON object")

    def calls_in(self, text: str, tools: Collection[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
        return text, ()


async def cannot_say(_request: ModelRequest) -> None:
    return None


def rough(n_ctx: int | None = None, ask: Callable[[ModelRequest], Awaitable[int | None]] = cannot_say) -> Tokens:
    """Counts characters only. `n_ctx`: what the server says; `ask` plays its own count."""

    async def ready() -> Endpoint:
        return Endpoint("http://fake", "", "fake", n_ctx)

    def no_encoding() -> Callable[[str], int]:
        raise ImportError

    return Tokens(ready, ask, no_encoding)


def open_session(model: ScriptedModel, *tools: FakeTool, journal: Journal | None = None, **options: Any) -> Session:
    settings: dict[str, Any] = {"mode": "auto", "clock": RealClock(), "reader": StrictCalls(), "counter": rough()}
    settings |= {"tools_json": "[]", "system": "system"} | options
    return Session(
        model=model,
        tools=tools or (FakeTool(),),
        journal=journal or MemoryJournal(),
        **settings,
    )


def legal(messages: Sequence[Any]) -> bool:
    """Has each call exactly one result, in order, before anything else follows?"""
    want: list[str] = []
    for message in messages:
        if hasattr(message, "call_id"):
            if not want or message.call_id != want.pop(0):
                return False
        elif want:
            return False
        elif hasattr(message, "calls"):
            want = [c.id for c in message.calls]
    return not want
