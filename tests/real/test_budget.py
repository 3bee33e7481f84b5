"""Counting, compacting and telling drafts apart, on the real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from agent.core.session import Session
from agent.events import AssistantAdded, Compacted, TurnEnded
from agent.messages import UserMessage
from agent.model.calls import LenientCalls
from agent.model.client import OpenAIModel
from agent.model.encoding import o200k
from agent.model.tokens import Tokens
from agent.runtime.supervisor import Supervisor
from tests.fakes.core import MemoryJournal, RealClock
from tests.real.conftest import Start, tiny_profile
from tests.real.tiny import Tiny

pytestmark = pytest.mark.real
Open = Callable[[Supervisor], Session]
TOOLS = '[{"function":{"name":"bash","parameters":{"properties":{},"required":[],"type":"object"}},"type":"function"}]'


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    sessions: list[Session] = []

    def open_on(supervisor: Supervisor) -> Session:
        model = OpenAIModel(supervisor.ensure_ready)
        session = Session(
            model=model,
            tools=(),
            tools_json=TOOLS,
            system="You are a test. " * 8,
            journal=MemoryJournal(),
            clock=RealClock(),
            reader=LenientCalls(),
            counter=Tokens(supervisor.ensure_ready, model.count, o200k),
            thinking=False,
            max_tokens=160,
        )
        sessions.append(session)
        return session

    yield open_on
    for session in sessions:
        await session.close()


async def say(session: Session, text: str) -> AssistantAdded:
    session.submit(text)
    await session.idle()
    end = next(e for e in reversed(session.past) if isinstance(e, TurnEnded))
    assert end.outcome == "done", end
    return next(e for e in reversed(session.past) if isinstance(e, AssistantAdded))


async def test_a_conversation_outgrows_the_context_many_times(start: Start, talker: Tiny, opened: Open) -> None:
    supervisor = start(talker.target, talker.draft, tiny_profile(ctx=1536))
    session = opened(supervisor)
    counts = OpenAIModel(supervisor.ensure_ready)
    for number in range(20):
        reply = await say(session, f"Question {number}: what is a token? Remember {number}.")
        asked = replace(session.request(), messages=session.request().messages[:-1])
        assert await counts.count(asked) == reply.message.usage.prompt_tokens, "counted before as after"
    compactions = [e for e in session.past if isinstance(e, Compacted)]
    assert len(compactions) >= 2
    for event in compactions:
        assert event.summary and event.before and event.after and event.after < event.before
        read, cached = event.timings.prompt_n or 0, event.timings.cache_n or 0
        assert cached > 0.5 * (read + cached), "the summary was asked over what the server had read"
        assert event.timings.draft_n, "drafting went on"
    first = session.request().messages[0]
    assert isinstance(first, UserMessage) and "Remember 0." in first.text and "Summary" in first.text
    session.server_changed(supervisor.state)
    spent = await session.spending()
    assert spent.exact and spent.n_ctx == 1536 and spent.free is not None
    assert abs(sum(n for _, n in spent.parts) - spent.used) <= len(spent.parts)


async def test_drafts_by_kind_add_up_to_the_servers_totals(start: Start, talker: Tiny, opened: Open) -> None:
    session = opened(start(talker.target, talker.draft))
    timings = (await say(session, "hello")).message.timings
    assert timings.draft_n and timings.split
    assert sum(s.drafted for s in timings.split) == timings.draft_n
    assert sum(s.accepted for s in timings.split) == timings.draft_n_accepted
    assert abs(sum(s.tokens for s in timings.split) - (timings.predicted_n or 0)) <= 1
    assert [s.kind for s in timings.split] == ["prose"]


async def test_without_a_draft_nothing_is_reported_for_each_token(start: Start, talker: Tiny, opened: Open) -> None:
    session = opened(start(talker.target))
    assert (await say(session, "hello")).message.timings.split == ()
