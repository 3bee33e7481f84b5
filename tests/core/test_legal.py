"""Whatever happens in a session, and wherever it is killed, what is sent is legal: a property."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.history import History, fitting
from agent.errors import BadReply, ContextOverflow, Looping, Refused, ServerUnavailable
from agent.events import DurableEvent
from agent.model.calls import LenientCalls
from agent.model.wire import Manner, messages_json
from agent.protocols import CallChunk, TextChunk, ThinkingChunk
from tests.fakes.core import FakeTool, MemoryJournal, ScriptedModel, finish, open_session
from tests.fakes.llama import illegal

ARGUMENTS = ('{"value": "x"}', '{"value": ', "", "null", "[1]", '{"value": "a",}', '"x"', '{"value": NaN}')
PIECES = st.one_of(
    st.sampled_from(["words ", " ", "\n", "<|tool_call>call:bash{value:1}<tool_call|>"]).map(TextChunk),
    st.just(ThinkingChunk("hm")),
    st.builds(
        CallChunk,
        st.integers(0, 2),
        st.sampled_from(["", "same", "other"]),
        st.sampled_from(["bash", "nope", ""]),
        st.sampled_from(ARGUMENTS),
    ),
)
FAULTS = (BadReply("b"), Refused("r"), ContextOverflow("c", 9, 8), Looping("l", "words "), ServerUnavailable("s"))
ENDS = st.one_of(
    st.sampled_from(["stop", "tool_calls", "length", None]).map(finish),
    st.sampled_from(FAULTS),
    st.just("hang"),
)
REPLIES = st.lists(st.tuples(st.lists(PIECES, max_size=4), ENDS), min_size=1, max_size=6)


async def lived(replies: list[Any], steer_at: int) -> list[DurableEvent]:
    """The journal of a session that gets three prompts; a reply that hangs is stopped, and one prompt is steered."""
    scripts = [[*pieces, asyncio.Event() if end == "hang" else end] for pieces, end in replies]
    model, journal = ScriptedModel(*scripts), MemoryJournal()
    session = open_session(model, FakeTool(), journal=journal, reader=LenientCalls(), max_steps=6)
    for number in range(3):
        session.submit(f"prompt {number}")
        for moment in range(400):
            if moment == steer_at:
                session.steer("steered")
            await asyncio.sleep(0)
            if not session.running:
                break
        await session.cancel()
    await session.close()
    return journal.events


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(REPLIES, st.integers(0, 60), st.data())
def test_what_is_sent_is_legal_whatever_happened_and_wherever_it_was_killed(
    replies: list[Any], steer_at: int, data: st.DataObject
) -> None:
    events = asyncio.run(lived(replies, steer_at))
    cut = data.draw(st.integers(0, len(events)), label="killed after")
    lost = data.draw(st.sets(st.integers(0, len(events)), max_size=2), label="lines lost")
    for past in (events, events[:cut], [e for n, e in enumerate(events) if n not in lost]):
        journal = MemoryJournal()
        model = ScriptedModel()

        async def go_on(past: list[DurableEvent] = past, journal: Any = journal, model: Any = model) -> None:
            session = open_session(model, FakeTool(), past=past, journal=journal)
            session.submit("and now?")
            await session.idle()
            await session.close()

        asyncio.run(go_on())
        sent = messages_json("system", model.requests[0].messages, Manner())
        assert not illegal(sent), (illegal(sent), sent)
        assert History.from_events(fitting(past)) is not None
