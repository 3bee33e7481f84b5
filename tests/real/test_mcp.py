"""MCP servers and the real engine: what servers do moves nothing that was read, by the engine's own count; a schema
that it refuses is found, named and set aside."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.core.session import Session
from agent.events import AssistantAdded, Event, Notice, TurnEnded
from agent.forms import FormAsked
from agent.model.calls import LenientCalls
from agent.model.client import OpenAIModel
from agent.model.encoding import o200k
from agent.model.tokens import Tokens
from agent.runtime.supervisor import Supervisor
from agent.tools.mcp.host import Sampling
from agent.tools.mcp.pool import Pool
from agent.tools.registry import tool_schemas
from agent.wiring.mcp import accepts
from agent.wiring.sampling import Sampler
from tests.fakes.core import MemoryJournal, RealClock
from tests.fakes.mcp_server import script, tool
from tests.real.conftest import Start, tiny_profile
from tests.real.tiny import Tiny, make_tiny
from tests.tools.mcp.conftest import MakePool, kind, pools, told, until

__all__ = ["pools", "told"]  # fixtures

pytestmark = pytest.mark.real


@pytest.fixture(scope="session")
def asker(tmp_path_factory: pytest.TempPathFactory, official: Callable[[str], str]) -> Tiny:
    """Has Google's template. In each turn it calls a tool of the server x by mcp_call, then tells its story."""
    folder, template = tmp_path_factory.mktemp("asker"), official("google-gemma-4-31B-it")
    return make_tiny(folder, tool="mcp_call", argument=("tool", "mcp__x__go"), template=template)


def opened(supervisor: Supervisor, pool: Pool, model: OpenAIModel) -> Session:
    listed, reach = pool.open_conversation()
    return Session(
        model=model,
        counter=Tokens(supervisor.ensure_ready, model.count, o200k),
        tools=reach,
        tools_json=tool_schemas(reach, listed),
        system="Mind the words of the sea. " * 100,  # longer than a batch: of less the engine reads a bit twice
        journal=MemoryJournal(),
        clock=RealClock(),
        reader=LenientCalls(),
        mode="auto",
        max_tokens=400,
        late=pool,
    )


async def turn(session: Session, words: str) -> list[Event]:
    heard = session.subscribe()
    past, events = len(session.past), list[Event]()
    session.submit(words)
    async for event in heard:
        events.append(event)
        if isinstance(event, TurnEnded) and len(events) > past:
            break
    heard.close()
    return events[past:]


async def test_a_server_that_comes_changes_and_dies_moves_nothing_that_was_read(
    start: Start, asker: Tiny, pools: MakePool, tmp_path: Path
) -> None:
    supervisor = start(asker.target, asker.draft)
    become = [tool("go"), tool("new")]
    pool = pools({"x": script(tmp_path, "x", tools=[tool("go"), tool("old")], becomes={"go": become})}, start=False)
    session = opened(supervisor, pool, OpenAIModel(supervisor.ensure_ready))
    events = await turn(session, "before it is there")
    pool.start()
    await until(lambda: kind(pool, "x") == "ready")
    events += await turn(session, "it has come")  # its tool is called, and changes the list
    await until(lambda: "new" in {t.name for t in pool.states()[0].tools})
    events += await turn(session, "it has changed")
    pid = pool.servers["x"].birth.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: kind(pool, "x") != "ready")
    events += await turn(session, "it has died")
    added = [e for e in events if isinstance(e, AssistantAdded)]
    assert [len(a.message.calls) for a in added] == [1, 0] * 4
    for before, after in itertools.pairwise(added):
        was, now = before.message.timings, after.message.timings
        assert was.cache_n is not None and was.prompt_n is not None and was.predicted_n is not None
        assert now.cache_n == was.cache_n + was.prompt_n + was.predicted_n - 1, "all that was read is still there"
    assert [a.reread for a in added] == [None] * 8
    told = "\n".join(m.text for m in session.request().messages)
    for words in ("MCP server x is ready", "go was called", "mcp__x__new", "that are gone: mcp__x__old"):
        assert words in told
    await session.close()


async def test_a_question_of_a_servers_leaves_the_conversation_where_it_was(
    start: Start, asker: Tiny, pools: MakePool
) -> None:
    """The engine keeps what it has read in the host's memory while it answers something else."""
    supervisor = start(asker.target, asker.draft)
    model = OpenAIModel(supervisor.ensure_ready)
    session = opened(supervisor, pools({}), model)
    heard = session.subscribe()

    async def agree() -> None:
        async for event in heard:
            if isinstance(event, FormAsked):
                session.forms.fill(event.request_id, "yes", {})

    agreeing = asyncio.create_task(agree())
    first = await turn(session, "hello " * 300)
    answer = await Sampler(lambda: session, model)(Sampling("x", [("user", "Who are you?")], "", 40))
    second = await turn(session, "and now?")
    agreeing.cancel()
    replies = [e.message for events in (first, second) for e in events if isinstance(e, AssistantAdded)]
    was, now = replies[1].timings, replies[2].timings
    assert answer.text and answer.cut
    assert was.prompt_n is not None and was.predicted_n is not None and now.cache_n is not None
    held = (was.cache_n or 0) + was.prompt_n + was.predicted_n - 1
    assert held - now.cache_n < was.predicted_n + 8, "at most the last reply is read again"
    await session.close()


FAULTY: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "no-such-type"}}}
ODD: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(never closed$"}}}
CONTRARY: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string", "minLength": 5, "maxLength": 1}}}


@pytest.mark.parametrize("template", ["Qwen-Qwen3-0.6B", "Qwen3-Coder"], ids=["status 400", "status 500"])
async def test_a_schema_that_the_engine_refuses_is_named_and_set_aside_while_the_rest_works(
    start: Start, official: Callable[[str], str], pools: MakePool, tmp_path: Path, template: str
) -> None:
    """Qwen's templates: of Gemma's, the engine makes no grammar."""
    tiny = make_tiny(tmp_path / "qwen", template=official(template))
    supervisor = start(tiny.target, profile=tiny_profile())
    model = OpenAIModel(supervisor.ensure_ready)
    tools = [tool("fine"), tool("odd", inputSchema=ODD), tool("faulty", inputSchema=FAULTY)]
    tools.append(tool("contrary", inputSchema=CONTRARY))
    entry = script(tmp_path, "x", tools=tools) | {"always_load": True}

    def taken(lists: OpenAIModel) -> Callable[[str], Awaitable[bool]]:
        return lambda text: accepts(lists, text)

    first = pools({"x": entry}, accepts=taken(model))
    await until(lambda: kind(first, "x") == "ready")
    session = opened(supervisor, first, model)
    events = await turn(session, "hello")
    assert next(e for e in events if isinstance(e, TurnEnded)).kind != "refused"
    assert next(e for e in events if isinstance(e, AssistantAdded)).message.text
    said = [e.text for e in events if isinstance(e, Notice)]
    assert any("mcp__x__odd" in s and "plainer" in s for s in said), said
    assert any("refuses the schema of mcp__x__faulty: set aside" in s for s in said), said
    listed = session.request().tools
    assert all(name in listed for name in ("mcp__x__fine", "mcp__x__odd", "mcp__x__contrary", "mcp_call"))
    assert "mcp__x__faulty" not in listed and "minLength" not in listed
    await session.close()
