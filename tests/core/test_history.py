"""A journal whose lines do not fit each other still gives a conversation that can go on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.history import LOST_RESULT, History, fitting
from agent.events import (
    AssistantAdded,
    CallPlanned,
    DurableEvent,
    PermissionSettled,
    ResultAdded,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent.tui.picture import Picture
from tests.fakes.core import ScriptedModel, legal, open_session

ASKED = TurnStarted(1, UserMessage("m2", "go"))
CALLS = AssistantAdded(1, AssistantMessage("m3", "", "", (ToolCall("a", "bash", "{}"), ToolCall("b", "bash", "{}"))))
PLAN = CallPlanned("a", "bash", "execute", "run")
A = ResultAdded("a", "bash", "one", False, 0.1)
B = ResultAdded("b", "bash", "two", False, 0.1)
SAID = AssistantAdded(1, AssistantMessage("m4", "done"))
END = TurnEnded(1, "done")
WHOLE: list[DurableEvent] = [ASKED, CALLS, PLAN, PermissionSettled("a", "once", "user"), A, B, SAID, END]


def test_a_whole_journal_stays_as_it_is() -> None:
    more = [*WHOLE, SettingsChanged("mode", "auto"), TurnStarted(2, UserMessage("m5", "go"))]
    assert list(fitting(more)) == more


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([ASKED, A, END], [ASKED, END]),
        ([ASKED, CALLS, A, A, B, SAID, END], [ASKED, CALLS, A, B, SAID, END]),
        ([ASKED, A, CALLS, A, B, B, END, B], [ASKED, CALLS, A, B, END]),
        ([ASKED, PLAN, CALLS, A, B, PLAN, SAID], [ASKED, CALLS, A, B, SAID]),
        ([END, ASKED, SAID, END, END], [ASKED, SAID, END]),
        ([SAID, A, END, ASKED], [ASKED]),
        ([ASKED, ASKED, SAID, SAID, END], [ASKED, SAID, END]),
        ([ASKED, CALLS, A, B, CALLS, A, B, END], [ASKED, CALLS, A, B, END]),
    ],
)
def test_lines_that_do_not_fit_are_passed_over(lines: list[DurableEvent], kept: list[DurableEvent]) -> None:
    assert list(fitting(lines)) == kept


def test_a_lost_result_is_filled_in_before_the_conversation_goes_on() -> None:
    events = list(fitting([ASKED, CALLS, A, SAID, END]))
    results = [m for m in History.from_events(events).view() if isinstance(m, ToolMessage)]
    assert [(m.call_id, m.text) for m in results] == [("a", "one"), ("b", LOST_RESULT)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(WHOLE), max_size=14))
def test_any_order_of_lines_gives_a_history_the_server_accepts(lines: list[DurableEvent]) -> None:
    history = History.from_events(fitting([*lines, TurnStarted(9, UserMessage("m9", "more"))])).view()
    assert isinstance(history[-1], UserMessage)
    assert sum(isinstance(m, ToolMessage) for m in history) == sum(
        len(m.calls) for m in history if isinstance(m, AssistantMessage)
    )
    for number, message in enumerate(history):
        if isinstance(message, AssistantMessage):
            own = history[number + 1 : number + 1 + len(message.calls)]
            assert {m.call_id for m in own if isinstance(m, ToolMessage)} == {c.id for c in message.calls}


async def test_a_session_goes_on_from_a_journal_with_stray_lines_and_shows_only_what_fits() -> None:
    model = ScriptedModel()
    session = open_session(model, past=[END, A, *WHOLE, B, SAID])
    picture = Picture()
    for event in session.past:
        picture.apply(event)
    assert [type(e).__name__ for e in picture.conversation] == ["Said", "Call", "Call", "Answer", "End"]
    session.submit("more")
    await session.idle()
    await session.close()
    assert legal(model.requests[0].messages) and session.turn == 2


async def test_ids_of_a_resumed_session_are_new_even_after_replies_that_were_tried_again() -> None:
    session = open_session(ScriptedModel(), past=[ASKED, AssistantAdded(1, AssistantMessage("m9", "late")), END])
    session.submit("more")
    await session.idle()
    await session.close()
    ids = [e.message.id for e in session.past if isinstance(e, TurnStarted | AssistantAdded)]
    assert len(set(ids)) == len(ids) == 4
