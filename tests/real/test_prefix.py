"""The prefix on the real engine: what is sent extends what is in the cache, by the engine's own count."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent.core.cache import Reading
from agent.core.session import Session
from agent.events import AssistantAdded, Event, PrefillProgress, ServerState, TurnEnded
from agent.messages import AssistantMessage, Timings
from agent.model.calls import LenientCalls
from agent.model.client import OpenAIModel
from agent.model.encoding import o200k
from agent.model.tokens import Tokens
from agent.runtime.attached import Attached
from agent.runtime.supervisor import Supervisor
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools, tool_schemas
from agent.workspace.paths import Workspace
from tests.core.test_cache import PLANTS, conversation
from tests.fakes.core import MemoryJournal, RealClock
from tests.real.conftest import Start, tiny_profile
from tests.real.tiny import Tiny, make_tiny

pytestmark = pytest.mark.real
Open = Callable[..., Awaitable[Session]]


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

    async def open_on(supervisor: Supervisor, system: str = "You are a test.") -> Session:
        tools = build_tools(Workspace(tmp_path), os.environ, tmp_path / ".logs", book)
        model = OpenAIModel(supervisor.ensure_ready)
        session = Session(
            model=model,
            counter=Tokens(supervisor.ensure_ready, model.count, o200k),
            tools=tools,
            tools_json=tool_schemas(tools),
            system=system,
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


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


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


async def test_what_is_read_ahead_is_not_read_again_by_the_first_request(
    start: Start, gemma: Tiny, sessions: Open
) -> None:
    session = await sessions(start(gemma.target, gemma.draft))
    session.read_ahead()
    await until(lambda: session.read is not None)
    first = (await turn(session, "hello"))[0].message.timings
    assert session.read and session.read > 500
    assert first.cache_n is not None and first.cache_n >= session.read and (first.prompt_n or 99) < 20
    assert first.draft_n


async def test_reading_ahead_stops_when_the_user_sends_and_what_was_read_serves(
    start: Start, gemma: Tiny, sessions: Open
) -> None:
    small = {"any": ("--batch-size", "64", "--ubatch-size", "64")}  # it is seen between two batches
    supervisor = start(gemma.target, profile=tiny_profile(ctx=32768, flags=small))
    session = await sessions(supervisor, system="Mind the words of the sea. " * 800)
    endpoint = await supervisor.ensure_ready()
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    async with httpx2.AsyncClient(trust_env=False, headers=headers) as client:

        async def processed() -> int:
            slot = (await client.get(f"{endpoint.base_url}/slots")).json()[0]
            return slot["n_prompt_tokens_processed"] if slot["is_processing"] else 0

        session.read_ahead()
        # of less than a tenth of the next prompt the engine thinks that it belongs to another conversation
        while await processed() < 3000:
            assert session.read is None, "it was over before it was seen"
            await asyncio.sleep(0.05)
    subscription = session.subscribe()
    session.submit("hello")
    async for event in subscription:
        if isinstance(event, PrefillProgress | TurnEnded):
            break
    assert isinstance(event, PrefillProgress), event
    assert session.read is None, "it did not end by itself"
    assert event.cache >= 3000, "the part that had been read was used"
    await session.cancel()


NOT_RENDERED = ("arguments serialised anew", "thinking switched", "model")  # of no weight for this template


async def test_planted_breaks_are_named_by_what_the_engine_really_read_again(start: Start, gemma: Tiny) -> None:
    endpoint = await start(gemma.target).ensure_ready()
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    async with httpx2.AsyncClient(base_url=endpoint.base_url, headers=headers, trust_env=False, timeout=60) as client:

        async def ask(body: dict[str, Any]) -> AssistantMessage:
            switch = {**body["chat_template_kwargs"], "think_first": False}
            asked = {**body, "chat_template_kwargs": switch, "max_tokens": 1, "temperature": 0}
            answer = await client.post("/v1/chat/completions", json=asked)
            assert answer.status_code == 200, answer.text
            t = answer.json()["timings"]
            return AssistantMessage("m", "", timings=Timings(t["cache_n"], t["prompt_n"], None, t["predicted_n"]))

        for plant in PLANTS:
            before, reading = conversation(), Reading()
            reading.server(endpoint)
            reading.judge(before, await ask(before))
            after = conversation()
            plant.change(after)
            after["messages"] += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "next"}]
            found = reading.judge(after, await ask(after))
            if plant.name in NOT_RENDERED:
                assert found is None, (plant.name, found)
            else:
                assert found and found.whose == plant.whose and plant.says in found.what, (plant.name, found)


async def test_thinking_switched_on_and_off_moves_nothing_and_thoughts_stay_as_they_were(
    start: Start, sessions: Open, tmp_path: Path, official: Callable[[str], str]
) -> None:
    tiny = make_tiny(tmp_path / "thinker", thought="Hm", template=official("google-gemma-4-31B-it"))
    session = await sessions(start(tiny.target, tiny.draft))
    session.set_thinking(False)
    replies = list[AssistantMessage]()
    for on in (False, True, True, False, True):
        session.set_thinking(on)
        replies += [a.message for a in await turn(session, "go on")]
    assert [r.thinking for r in replies] == ["", "Hm", "Hm", "", "Hm"]
    for before, after in itertools.pairwise(replies):
        assert after.timings.cache_n == held_by(before)
        assert after.timings.draft_n_accepted


async def test_an_attached_server_is_asked_what_its_template_does(start: Start, gemma: Tiny) -> None:
    for mend in (True, False):
        supervisor = start(gemma.target, mend=mend)
        own = await supervisor.ensure_ready()
        attached = Attached(own.base_url, {"DFLASH_SERVER_KEY": own.api_key}, lambda state: None)
        rewrites = (await attached.ensure_ready()).rewrites
        assert rewrites == (() if mend else ("reply", "order", "beside", "thought", "switch"))
        await supervisor.stop()
