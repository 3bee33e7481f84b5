"""The prefix on the real engine: what is sent extends what is in the cache, by the engine's own count."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from agent.core.session import Session
from agent.events import AssistantAdded, Event, ServerState, TurnEnded
from agent.messages import AssistantMessage
from agent.model.calls import LenientCalls
from agent.model.client import OpenAIModel
from agent.runtime.supervisor import Supervisor
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools, tool_schemas
from agent.workspace.paths import Workspace
from tests.fakes.core import MemoryJournal, RealClock
from tests.real.conftest import Start
from tests.real.tiny import Tiny, make_tiny

pytestmark = pytest.mark.real
Open = Callable[[Supervisor], Awaitable[Session]]


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory, official: Callable[[str], str]) -> Tiny:
    """Has Google's template. In each turn it says a word, then calls bash with its arguments out of their order, then
    tells its story."""
    return make_tiny(
        tmp_path_factory.mktemp("gemma"),
        tool="bash",
        argument=("command", "ls"),
        before="Looking:",
        timeout=True,
        template=official("google-gemma-4-31B-it"),
    )


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Open]:
    book = ProcessBook()
    opened: list[Session] = []

    async def open_on(supervisor: Supervisor) -> Session:
        tools = build_tools(Workspace(tmp_path), os.environ, tmp_path / ".logs", book)
        session = Session(
            model=OpenAIModel(supervisor.ensure_ready),
            tools=tools,
            tools_json=tool_schemas(tools),
            system="You are a test.",
            journal=MemoryJournal(),
            clock=RealClock(),
            reader=LenientCalls(),
            mode="auto",
            max_tokens=400,
        )
        opened.append(session)
        session.server_changed(ServerState("ready", endpoint=await supervisor.ensure_ready()))
        return session

    yield open_on
    for session in opened:
        await session.close()
    await book.stop_all()


async def turn(session: Session, text: str) -> list[AssistantAdded]:
    subscription = session.subscribe()
    past, events = len(session.past), list[Event]()
    session.submit(text)
    async for event in subscription:
        events.append(event)
        if isinstance(event, TurnEnded) and len(events) > past:
            break
    subscription.close()
    return [e for e in events[past:] if isinstance(e, AssistantAdded)]


def held_by(reply: AssistantMessage) -> int:
    """Tokens that the engine has computed when a reply is complete; its last one goes no further."""
    t = reply.timings
    assert t.cache_n is not None and t.prompt_n is not None and t.predicted_n is not None
    return t.cache_n + t.prompt_n + t.predicted_n - 1


@pytest.mark.parametrize("drafting", [True, False], ids=["dflash", "plain"])
async def test_each_request_is_read_only_where_it_is_new_and_drafting_goes_on_over_the_cache(
    start: Start, gemma: Tiny, sessions: Open, drafting: bool
) -> None:
    states = list[ServerState]()
    supervisor = start(gemma.target, gemma.draft if drafting else None, states=states)
    session = await sessions(supervisor)
    added = [a for line in ("first", "second", "third") for a in await turn(session, line)]
    replies = [a.message for a in added]
    assert [len(r.calls) for r in replies] == [1, 0] * 3, "a call and an answer in each turn"
    assert all(r.text == "Looking:" and r.calls[0].arguments.startswith('{"timeout":5') for r in replies[::2])
    for before, after in itertools.pairwise(replies):
        assert after.timings.cache_n == held_by(before)
    assert [a.reread for a in added] == [None] * 6
    if drafting:
        answers = [r.timings for r in replies[1::2]]
        assert all(t.draft_n and t.draft_n_accepted for t in answers)
        assert answers[0].acceptance == answers[1].acceptance == answers[2].acceptance
    endpoint = states[-1].endpoint
    assert endpoint and endpoint.rewrites == () and not states[-1].note


async def test_the_models_own_template_reads_replies_twice_and_is_named_for_it(
    start: Start, gemma: Tiny, sessions: Open
) -> None:
    session = await sessions(start(gemma.target, gemma.draft, mend=False))
    added = [a for line in ("first", "second") for a in await turn(session, line)]
    found = added[1].reread  # the call, behind a beginning that is rendered in another way now
    assert found and found.whose == "template" and "begins a reply in history otherwise" in found.what
    assert found.tokens > (added[0].message.timings.predicted_n or 0)


async def test_a_derived_template_that_does_not_serve_gives_way_to_the_models_own_with_a_notice(
    start: Start, gemma: Tiny, sessions: Open, tmp_path: Path
) -> None:
    states = list[ServerState]()
    supervisor = start(gemma.target, states=states, spoil=True)
    endpoint = await supervisor.ensure_ready()
    assert "reply" in (endpoint.rewrites or ())
    assert "a mended one was tried, and it still begins a reply in history otherwise" in states[-1].note
    assert len(list((tmp_path / "templates").glob("*.refused"))) == 1
    await supervisor.stop()
    again = list[ServerState]()
    await start(gemma.target, states=again).ensure_ready()
    assert not again[-1].note  # not tried again, nor told again
