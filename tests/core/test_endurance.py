"""Hundreds of turns in one session: neither the memory nor the work of a turn grows with the turns before it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tracemalloc
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from agent.core.session import Session
from agent.events import Compacted, Endpoint
from agent.messages import Usage
from agent.model.wire import request_body
from agent.protocols import FinishChunk, ModelChunk, ModelRequest, TextChunk
from agent.tui.gauge import Gauge
from agent.tui.picture import Picture
from tests.fakes.core import FakeTool, call, finish, open_session, rough

TURNS, EARLY = 500, 100
N_CTX = 8192
HERE = Endpoint("http://x", "", "m", N_CTX)


class Forgetful:
    """Answers every turn with a call and then in words, or with a summary; renders each request as the real client
    does, counts a quarter of its characters as tokens, and keeps nothing."""

    def __init__(self) -> None:
        self.requests = 0
        self.largest = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        self.requests += 1
        tokens = len(str(request_body(request, HERE, [], {})["messages"])) // 4
        self.largest = max(self.largest, tokens)
        usage = Usage(tokens, 0, 20)
        if request.may_call and getattr(request.messages[-1], "call_id", None) is None:
            yield call("bash", f"id-{self.requests}", value="ls")
            yield FinishChunk("tool_calls", usage, finish("stop").timings)
        else:
            yield TextChunk("That is done. " * 5)
            yield FinishChunk("stop", usage, finish("stop").timings)


class Work:
    """Counts the calls of functions of the product."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call" and "/agent/" in frame.f_code.co_filename:
            self.count += 1


async def many_turns(model: Forgetful, session: Session, work: Work, memory: list[int]) -> list[int]:
    """Calls made in each turn; `memory` gets the bytes in use after every hundredth."""
    picture, gauge = Picture(), Gauge()
    subscription = session.subscribe()

    async def draw() -> None:
        async for event in subscription:
            picture.apply(event)
            gauge.apply(event, 0.0)

    drawing = asyncio.create_task(draw())
    calls: list[int] = []
    for number in range(1, TURNS + 1):
        before = work.count
        session.submit(f"do thing {number}")
        await session.idle()
        calls.append(work.count - before)
        if number % 100 == 0:
            gc.collect()
            memory.append(tracemalloc.get_traced_memory()[0])
    await session.close()
    await drawing
    return calls


async def test_neither_memory_nor_work_grows_over_five_hundred_turns() -> None:
    model, work, memory = Forgetful(), Work(), list[int]()
    tool = FakeTool(act=lambda value, ctx: "a line of output\n" * 30)
    session = open_session(model, tool, counter=rough(N_CTX))  # type: ignore[arg-type]
    tracemalloc.start()
    sys.setprofile(work)
    try:
        calls = await many_turns(model, session, work, memory)
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
    events = session.past
    assert len([e for e in events if type(e).__name__ == "TurnEnded"]) == TURNS
    assert all(getattr(e, "outcome", "done") == "done" for e in events)
    assert len([e for e in events if isinstance(e, Compacted)]) > 20 and model.largest <= N_CTX
    early, late = calls[EARLY : 2 * EARLY], calls[-EARLY:]
    assert sum(late) / EARLY <= 1.1 * sum(early) / EARLY
    assert max(late) <= 1.1 * max(early), "the costliest turns, which compact, cost no more either"
    grown = [later - earlier for earlier, later in pairwise(memory)]
    assert max(grown) <= 1.2 * min(grown), "what is kept of a turn does not depend on the turns before it"
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert memory[-1] - memory[0] < 0.1 * resident
