"""Whole turns on the real engine: streaming, acceptance, tools through the server's own parser, cache, cancelling."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path

import httpx2
import pytest

from agent.config.profile import Ngram
from agent.core.session import Session
from agent.events import (
    AssistantAdded,
    Event,
    PrefillProgress,
    ResultAdded,
    ServerState,
    StepRetrying,
    TextDelta,
    TurnEnded,
)
from agent.model.calls import LenientCalls
from agent.model.client import OpenAIModel
from agent.model.encoding import o200k
from agent.model.tokens import Tokens
from agent.runtime.supervisor import Supervisor
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools, tool_schemas
from agent.workspace.paths import Workspace
from tests.fakes.core import MemoryJournal, RealClock
from tests.real.conftest import Start, tiny_profile
from tests.real.tiny import Tiny, make_tiny

pytestmark = pytest.mark.real
Open = Callable[..., Session]


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Open]:
    book = ProcessBook()
    opened: list[Session] = []

    def open_on(supervisor: Supervisor, *, with_tools: bool) -> Session:
        tools = build_tools(Workspace(tmp_path), os.environ, tmp_path / ".logs", book) if with_tools else ()
        model = OpenAIModel(supervisor.ensure_ready)
        session = Session(
            model=model,
            counter=Tokens(supervisor.ensure_ready, model.count, o200k),
            tools=tools,
            tools_json=tool_schemas(tools) if tools else "",
            system="You are a test.",
            journal=MemoryJournal(),
            clock=RealClock(),
            reader=LenientCalls(),
            mode="auto",
            max_tokens=400,
        )
        opened.append(session)
        return session

    yield open_on
    for session in opened:
        await session.close()
    await book.stop_all()


async def turn(session: Session, text: str) -> list[Event]:
    """Events of one turn, live ones included."""
    subscription = session.subscribe()
    past = len(session.past)
    session.submit(text)
    events: list[Event] = []
    async for event in subscription:
        events.append(event)
        if isinstance(event, TurnEnded) and len(events) > past:
            break
    subscription.close()
    return events[past:]


def replies(events: list[Event]) -> list[AssistantAdded]:
    return [e for e in events if isinstance(e, AssistantAdded)]


async def test_a_reply_streams_and_dflash_drafts_are_accepted(start: Start, talker: Tiny, sessions: Open) -> None:
    events = await turn(sessions(start(talker.target, talker.draft), with_tools=False), "hello")
    assert any(isinstance(e, TextDelta) for e in events) and any(isinstance(e, PrefillProgress) for e in events)
    message = replies(events)[0].message
    assert message.text.startswith("Hello! This reply comes from a tiny model") and message.finish == "stop"
    timings = message.timings
    assert timings.draft_n and timings.draft_n_accepted
    assert timings.tokens_per_step and timings.tokens_per_step > 2
    assert isinstance(events[-1], TurnEnded) and events[-1].outcome == "done"


async def test_a_draft_of_another_model_is_found_out_and_left_out(start: Start, tmp_path: Path, sessions: Open) -> None:
    deaf, states = make_tiny(tmp_path / "deaf", deaf=True), list[ServerState]()
    supervisor = start(deaf.target, deaf.draft, states=states)
    message = replies(await turn(sessions(supervisor, with_tools=False), "hello"))[0].message
    assert message.text.startswith("Hello!") and not message.timings.draft_n
    endpoint = states[-1].endpoint
    assert endpoint and endpoint.rung == "plain" and endpoint.speculative is False
    assert "0 were accepted: the draft model belongs to another model" in states[-1].note


async def test_the_model_calls_bash_through_the_servers_parser_and_ends_in_words(
    start: Start, caller: Tiny, sessions: Open, tmp_path: Path
) -> None:
    events = await turn(sessions(start(caller.target, caller.draft), with_tools=True), "make it")
    results = [e for e in events if isinstance(e, ResultAdded)]
    assert [(r.tool, r.failed) for r in results] == [("bash", False)], results
    assert (tmp_path / "made-by-the-model").exists()
    first, second = replies(events)
    assert first.message.finish == "tool_calls" and second.message.text.startswith("Hello!")
    assert (second.message.timings.cache_n or 0) > (first.message.timings.cache_n or 0)


async def test_the_cache_grows_over_a_second_turn(start: Start, talker: Tiny, sessions: Open) -> None:
    session = sessions(start(talker.target, talker.draft), with_tools=True)
    await turn(session, "first")
    await turn(session, "second")
    first, second = (e.message.timings for e in session.past if isinstance(e, AssistantAdded))
    assert second.cache_n and second.cache_n > (first.cache_n or 0) + 100


async def test_text_that_stands_in_the_context_is_drafted_from_there_beside_dflash(
    start: Start, talker: Tiny, sessions: Open
) -> None:
    session = sessions(start(talker.target, talker.draft, tiny_profile(ngram=Ngram())), with_tools=False)
    messages = [replies(await turn(session, text))[0].message for text in ("hello", "again")]
    assert messages[0].text == messages[1].text
    assert all((m.timings.tokens_per_step or 0) > 9 for m in messages)  # DFlash alone drafts 7 tokens here


async def test_an_engine_killed_in_mid_reply_heals_and_the_answer_comes_once(
    start: Start, smollm2: Path, sessions: Open
) -> None:
    supervisor = start(smollm2)
    session = sessions(supervisor, with_tools=False)
    stream = session.subscribe()
    session.submit("Tell me a long story about a ship.")
    killed, retried = 0, False
    async for event in stream:
        if isinstance(event, TextDelta) and not killed:
            killed = supervisor.pid or 0
            os.kill(killed, signal.SIGKILL)
        retried = retried or isinstance(event, StepRetrying)
        if isinstance(event, TurnEnded):
            break
    assert retried and supervisor.pid not in (0, killed)
    answers = [e.message for e in session.past if isinstance(e, AssistantAdded)]
    assert len(answers) == 1 and answers[0].finish in ("stop", "length") and answers[0].text


async def test_cancelling_makes_the_server_stop(start: Start, smollm2: Path, sessions: Open) -> None:
    supervisor = start(smollm2)
    session = sessions(supervisor, with_tools=False)
    subscription = session.subscribe()
    session.submit("Count from one to ten thousand, in words.")
    async for event in subscription:
        if isinstance(event, TextDelta):
            break
    await session.cancel()
    endpoint = await supervisor.ensure_ready()
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    async with httpx2.AsyncClient(trust_env=False, headers=headers) as client, asyncio.timeout(20):
        while (await client.get(f"{endpoint.base_url}/slots")).json()[0]["is_processing"]:
            await asyncio.sleep(0)
    end = session.past[-1]
    assert isinstance(end, TurnEnded) and end.outcome == "interrupted"
    assert replies(list(session.past))[-1].message.finish == "interrupted"


def test_smollm2_answers_headless_with_real_figures(home: Path) -> None:
    """The console way, with the smoke profile made steady; n-gram drafts on a reply that repeats itself."""
    profiles = home / "config" / "profiles"
    profiles.mkdir(parents=True)
    shipped = (resources.files("agent") / "runtime" / "profiles" / "smoke.toml").read_text(encoding="utf-8")
    (profiles / "steady.toml").write_text(shipped.replace("temperature = 0.2", "temperature = 0"))
    prompt = "Repeat this line ten times: the sea is wide and the sea is deep and the sea is blue and old."
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "agent", "--profile", "steady", "--offline"),
            *("-p", prompt, "--output-format", "json"),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home)},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
    )
    result = json.loads(done.stdout)
    assert result["text"] and result["status"] in ("done", "limit"), done.stderr
    stats = result["stats"]
    assert stats["prompt_tokens"] > 50 and stats["generated_tokens"] > 0 and stats["tokens_per_second"] > 0
    assert stats["draft_tokens"] > 0 and stats["accepted_tokens"] > 0
