"""A turn from the user's words to its end, with the model's side played from a script."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.core.bus import Subscription
from agent.core.retry import BUSY_PAUSE, Retries
from agent.core.session import Session
from agent.errors import BadReply, ContextOverflow, Refused, ServerUnavailable, ToolFailure
from agent.events import (
    DURABLE,
    AssistantAdded,
    CallPlanned,
    Event,
    GivenBack,
    Notice,
    PermissionAsked,
    PermissionSettled,
    ResultAdded,
    ServerChanged,
    ServerState,
    StepRetrying,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.messages import AssistantMessage, ToolMessage, UserMessage
from agent.protocols import CallChunk, TextChunk, ThinkingChunk
from tests.fakes.core import (
    FakeTool,
    MemoryJournal,
    ScriptedModel,
    call,
    calls,
    finish,
    legal,
    open_session,
    text,
)


async def collect(subscription: Subscription) -> list[Event]:
    return [event async for event in subscription]


async def one_turn(session: Session, prompt: str = "go") -> list[Event]:
    """All events of a session that gets one prompt and is closed."""
    reader = asyncio.create_task(collect(session.subscribe()))
    session.submit(prompt)
    await session.idle()
    await session.close()
    return await reader


def of(kind: type[Any], events: list[Event]) -> list[Any]:
    return [e for e in events if isinstance(e, kind)]


async def test_a_call_runs_and_the_model_answers_in_words() -> None:
    model = ScriptedModel(calls(call("bash", "c1", value="ls"), say="Looking."), text("two files"))
    journal = MemoryJournal()
    events = await one_turn(open_session(model, journal=journal))
    kinds = [type(e).__name__ for e in events if isinstance(e, DURABLE)]
    expected = [
        *("TurnStarted", "AssistantAdded", "CallPlanned", "PermissionSettled", "ResultAdded"),
        *("AssistantAdded", "TurnEnded"),
    ]
    assert kinds == expected
    assert of(ResultAdded, events)[0].text == "ran ls"
    assert of(TurnEnded, events)[0].outcome == "done"
    assert [type(e).__name__ for e in journal.events] == expected
    assert [type(m) for m in model.requests[1].messages] == [UserMessage, AssistantMessage, ToolMessage]
    assert "".join(e.text for e in of(TextDelta, events)) == "Looking.twofiles"


async def test_results_stand_in_the_order_of_the_calls_and_ids_are_made_unique() -> None:
    model = ScriptedModel(
        calls(call("bash", "", 0, value="a"), call("bash", "same", 1, value="b"), call("bash", "same", 2, value="c")),
        calls(call("bash", "same", value="d")),
        text("ok"),
    )
    await one_turn(open_session(model))
    history = model.requests[-1].messages
    assert legal(history)
    assert [m.text for m in history if isinstance(m, ToolMessage)] == ["ran a", "ran b", "ran c", "ran d"]
    ids = [c.id for m in history if isinstance(m, AssistantMessage) for c in m.calls]
    assert len(set(ids)) == len(ids) == 4


@pytest.mark.parametrize(
    ("chunk", "says"),
    [
        (CallChunk(0, "c1", "no_such", "{}"), "The tools are: bash"),
        (CallChunk(0, "c1", "bash", '{"value": '), "not a JSON object. Send it again as one JSON object: bash(value?"),
        (CallChunk(0, "c1", "bash", '"text"'), "not a JSON object"),
        (CallChunk(0, "c1", "bash", '{"value": {"a": 1}}'), "`value` must be text, not an object. Expected: bash("),
    ],
)
async def test_a_faulty_call_runs_nothing_and_tells_the_model_why(chunk: CallChunk, says: str) -> None:
    tool = FakeTool()
    model = ScriptedModel(calls(chunk), text("sorry"))
    events = await one_turn(open_session(model, tool))
    assert tool.ran == []
    assert says in of(ResultAdded, events)[0].text
    assert of(TurnEnded, events)[0].outcome == "done"


async def test_a_failing_tool_and_a_bug_in_a_tool_become_results() -> None:
    def fail(value: str, ctx: Any) -> str:
        if value == "bug":
            raise KeyError("oops")
        raise ToolFailure("exit status 1")

    model = ScriptedModel(calls(call("bash", "a", 0, value="x"), call("bash", "b", 1, value="bug")), text("sorry"))
    events = await one_turn(open_session(model, FakeTool(act=fail)))
    first, second = of(ResultAdded, events)
    assert (first.failed, first.text) == (True, "exit status 1")
    assert second.failed and "Internal error in bash" in second.text


async def test_cancelling_at_any_moment_leaves_a_history_the_server_accepts() -> None:
    outcomes = set[str]()
    for moment in range(40):
        hang = asyncio.Event()
        model = ScriptedModel(
            [
                TextChunk("thinking "),
                TextChunk("aloud"),
                call("bash", "a", 0, value="x"),
                call("bash", "b", 1),
                finish("tool_calls"),
            ]
        )
        session = open_session(model, FakeTool(hang=hang), mode="ask" if moment % 2 else "auto")
        reader = asyncio.create_task(collect(session.subscribe()))
        session.submit("go")
        for _ in range(moment // 2):
            await asyncio.sleep(0)
        await session.cancel()
        model.replies.clear()
        session.submit("and now?")
        await session.idle()
        await session.close()
        events = await reader
        assert legal(model.requests[-1].messages), moment
        ends = [e.outcome for e in of(TurnEnded, events)]
        assert ends in (["interrupted", "done"], ["done"])  # a message cancelled before its turn began is given back
        outcomes.add(" ".join(ends))
        assert not any(isinstance(m, AssistantMessage) and not (m.text or m.calls) for m in model.requests[-1].messages)
        asked = [e.request_id for e in of(PermissionAsked, events)]
        assert len(asked) <= 1
    assert "interrupted done" in outcomes


async def test_cancel_gives_back_what_was_not_sent() -> None:
    session = open_session(ScriptedModel([TextChunk("a"), asyncio.Event()]))
    session.submit("first")
    await asyncio.sleep(0)
    session.submit("second")
    assert await session.cancel() == ("second",)
    await session.close()


async def test_what_waits_can_be_taken_back_and_is_then_not_sent() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([TextChunk("a"), gate, finish("stop")])
    session = open_session(model)
    session.submit("first")
    while not session.past:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    session.submit("second")
    session.steer("third")
    assert session.take_back() == ("third", "second")
    assert session.take_back() == ()
    gate.set()
    await session.idle()
    await session.close()
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("fault", "sent"), [(Refused("no"), 1), (ContextOverflow("no", 9, 8), 2), (TextChunk("hi"), 2)]
)
async def test_what_waits_behind_a_turn_that_failed_is_given_back(fault: Any, sent: int) -> None:
    gate = asyncio.Event()
    model = ScriptedModel([gate, fault, finish("stop")], text("fine"))
    session = open_session(model)
    reader = asyncio.create_task(collect(session.subscribe()))
    session.submit("first")
    while not session.past:
        await asyncio.sleep(0)
    session.submit("second")
    gate.set()
    await session.idle()
    await session.close()
    given = [e.text for e in of(GivenBack, await reader)]
    assert len(model.requests) == sent
    assert ("second" in given) == (sent == 1)


async def test_half_a_call_is_never_run_and_what_was_said_is_kept() -> None:
    tool = FakeTool()
    broken = [TextChunk("I will "), CallChunk(0, "c", "bash", '{"value": "rm'), ServerUnavailable("gone")]
    model = ScriptedModel(broken, broken)
    events = await one_turn(open_session(model, tool))
    (added,) = of(AssistantAdded, events)
    assert (added.message.text, added.message.calls, added.message.finish) == ("I will ", (), "error")
    assert [c.arguments for c in added.message.cut] == ['{"value": "rm'], "it stays to be seen"
    assert tool.ran == [] and of(TurnEnded, events)[0].outcome == "failed"
    assert len(model.requests) == 2


async def test_what_is_done_already_is_not_asked_of_the_user() -> None:
    gone = ServerUnavailable("It cannot be reached. Check that it runs, then send again.")
    model = ScriptedModel([gone], [BadReply("It broke off. Send again.")], [TextChunk("ok"), finish("stop")])
    events = await one_turn(open_session(model))
    assert [e.why for e in of(StepRetrying, events)] == ["It cannot be reached.", "It broke off."]


async def test_a_reply_that_breaks_off_is_asked_for_once_more_and_leaves_one_answer() -> None:
    model = ScriptedModel([TextChunk("half an ans")], [TextChunk("whole"), finish("stop")])
    events = await one_turn(open_session(model))
    assert [a.message.text for a in of(AssistantAdded, events)] == ["whole"]
    assert model.requests[0].messages == model.requests[1].messages
    assert len(of(StepRetrying, events)) == 1 and of(TurnEnded, events)[0].outcome == "done"


@pytest.mark.parametrize("stop", [True, False])
async def test_what_had_arrived_stays_when_the_next_attempt_brings_nothing(stop: bool) -> None:
    away: list[Any] = [ServerUnavailable("gone")]
    session = open_session(ScriptedModel([TextChunk("half an ans"), BadReply("broke off")], away, away, away))
    reader = asyncio.create_task(collect(session.subscribe()))
    session.submit("go")
    if stop:
        async for event in session.subscribe():
            if isinstance(event, StepRetrying):
                await session.cancel()
                break
    await session.idle()
    await session.close()
    events = await reader
    finish_, outcome = ("interrupted", "interrupted") if stop else ("error", "failed")
    assert [(a.message.text, a.message.finish) for a in of(AssistantAdded, events)] == [("half an ans", finish_)]
    assert of(TurnEnded, events)[0].outcome == outcome


async def test_a_server_that_is_busy_is_waited_for_and_said_once() -> None:
    def busy() -> ServerUnavailable:
        fault = ServerUnavailable("no slot is free")
        fault.busy = True
        return fault

    retries = Retries()
    pauses = [retries.after(busy(), started=False) for _ in range(100)]
    assert pauses[:60] == [BUSY_PAUSE] * 60 and pauses[-1] is None
    events = await one_turn(open_session(ScriptedModel([busy()], text("fine"))))
    assert len(of(StepRetrying, events)) == 1 and of(TurnEnded, events)[0].outcome == "done"


async def test_a_stream_without_an_end_is_broken_off_not_finished() -> None:
    events = await one_turn(open_session(ScriptedModel([TextChunk("half an ans")], [TextChunk("half again")])))
    assert [(a.message.text, a.message.finish) for a in of(AssistantAdded, events)] == [("half again", "error")]
    assert of(TurnEnded, events)[0].kind == "reply"


async def test_a_server_that_is_away_is_asked_again_at_most_twice() -> None:
    model = ScriptedModel([ServerUnavailable("a")], [ServerUnavailable("b")], [ServerUnavailable("c")])
    events = await one_turn(open_session(model))
    assert len(model.requests) == 3 and len(of(StepRetrying, events)) == 2
    assert of(TurnEnded, events)[0].kind == "server"


async def test_calls_of_a_reply_cut_by_the_output_limit_are_not_run() -> None:
    tool = FakeTool()
    cut = [call("bash", value="big"), finish("length", 512)]
    model = ScriptedModel(cut, cut, cut, cut)
    events = await one_turn(open_session(model, tool))
    assert tool.ran == [] and len(model.requests) == 3
    assert "smaller pieces" in of(ResultAdded, events)[0].text
    assert (of(TurnEnded, events)[0].outcome, of(TurnEnded, events)[0].kind) == ("limit", "output_limit")


@pytest.mark.parametrize(
    ("steps", "outcome", "kind"),
    [
        ([finish("stop")], "failed", "empty"),
        ([ThinkingChunk("hm"), finish("stop")], "failed", "empty"),
        ([ThinkingChunk("hm"), finish("length")], "limit", "output_limit"),
        ([TextChunk("half"), finish("length")], "limit", "output_limit"),
        ([TextChunk("I call"), finish("tool_calls")], "failed", "empty"),
    ],
)
async def test_a_turn_without_a_whole_answer_says_so(steps: list[Any], outcome: str, kind: str) -> None:
    end = of(TurnEnded, await one_turn(open_session(ScriptedModel(steps))))[0]
    assert (end.outcome, end.kind) == (outcome, kind) and end.detail


async def test_the_same_failing_call_again_and_again_ends_the_turn() -> None:
    model = ScriptedModel(*[calls(call("nope", value="x")) for _ in range(10)])
    end = of(TurnEnded, await one_turn(open_session(model)))[0]
    assert end.kind == "repeated" and len(model.requests) == 3 and end.detail.endswith("?")


async def test_the_step_limit_ends_the_turn() -> None:
    model = ScriptedModel(*[calls(call("bash", value=str(n))) for n in range(10)])
    end = of(TurnEnded, await one_turn(open_session(model, max_steps=2)))[0]
    assert (end.outcome, end.kind) == ("limit", "max_turns") and len(model.requests) == 2


async def test_steering_joins_after_the_current_call_and_the_rest_is_skipped() -> None:
    session: Session

    def steer(value: str, ctx: Any) -> str:
        session.steer("stop that")
        return "done"

    model = ScriptedModel(calls(call("bash", "a", 0, value="1"), call("bash", "b", 1, value="2")), text("fine"))
    tool = FakeTool(act=steer)
    session = open_session(model, tool)
    events = await one_turn(session)
    assert tool.ran == ["1"]
    assert [e.steered for e in of(TurnStarted, events)] == [False, True]
    assert legal(model.requests[1].messages) and model.requests[1].messages[-1] == UserMessage("m4", "stop that")
    assert len(of(TurnEnded, events)) == 1


@pytest.mark.parametrize(("decision", "runs"), [("once", 1), ("session", 2), ("denied", 0)])
async def test_the_user_decides_and_the_session_remembers(decision: Any, runs: int) -> None:
    model = ScriptedModel(calls(call("bash", "a", value="ls")), calls(call("bash", "b", value="ls")), text("ok"))
    tool = FakeTool()
    session = open_session(model, tool, mode="ask")
    subscription = session.subscribe()
    session.submit("go")
    asked = 0
    async for event in subscription:
        if isinstance(event, PermissionAsked):
            asked += 1
            assert session.answer(event.request_id, decision if asked == 1 else "denied")
            assert not session.answer(event.request_id, "once"), "a question is answered once"
        if isinstance(event, TurnEnded):
            break
    assert len(tool.ran) == runs and asked == (1 if decision == "session" else 2)
    await session.close()


async def test_without_anyone_to_ask_the_call_is_denied_and_the_turn_says_so() -> None:
    model = ScriptedModel(calls(call("bash", value="ls")), text("I cannot"))
    events = await one_turn(open_session(model, mode="ask", can_ask=False))
    assert of(PermissionSettled, events)[0].by == "nobody"
    assert of(TurnEnded, events)[0].outcome == "denied"


async def test_a_front_end_that_comes_late_sees_the_past_and_what_is_open() -> None:
    gate = asyncio.Event()
    session = open_session(ScriptedModel([TextChunk("one "), TextChunk("two"), gate, finish("stop")]))
    session.server_changed(ServerState("ready"))
    early = session.subscribe()
    session.submit("go")
    heard = ""
    async for event in early:
        heard += event.text if isinstance(event, TextDelta) else ""
        if heard == "one two":
            break
    late = asyncio.create_task(collect(session.subscribe()))
    gate.set()
    await session.idle()
    await session.close()
    events = await late
    assert of(TextDelta, events)[0].text == "one two"
    assert of(ServerChanged, events) and of(TurnStarted, events) and of(TurnEnded, events)


async def test_a_resumed_session_goes_on_from_its_events() -> None:
    journal = MemoryJournal()
    await one_turn(open_session(ScriptedModel(calls(call("bash", "a", value="ls")), text("done")), journal=journal))
    model = ScriptedModel(text("again"))
    session = open_session(model, past=journal.events)
    session.submit("more")
    await session.idle()
    await session.close()
    assert [type(m).__name__ for m in model.requests[0].messages] == (
        ["UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage", "UserMessage"]
    )
    assert len({m.id for m in model.requests[0].messages if not isinstance(m, ToolMessage)}) == 4


async def test_a_session_killed_in_the_middle_of_a_call_resumes_with_a_legal_history() -> None:
    journal = MemoryJournal()
    await one_turn(open_session(ScriptedModel(calls(call("bash", "a", value="ls")), text("done")), journal=journal))
    cut = [e for e in journal.events if not isinstance(e, ResultAdded | TurnEnded)][:3]
    assert isinstance(cut[-1], CallPlanned)
    model = ScriptedModel(text("again"))
    session = open_session(model, past=cut)
    session.submit("more")
    await session.idle()
    await session.close()
    assert legal(model.requests[0].messages)


async def test_a_full_disk_is_said_once_and_the_conversation_goes_on() -> None:
    journal = MemoryJournal(fail=OSError(28, "No space left on device"))
    events = await one_turn(open_session(ScriptedModel(text("still here")), journal=journal))
    assert [n.text for n in of(Notice, events)] == ["This session is no longer saved: No space left on device."]
    assert of(TurnEnded, events)[0].outcome == "done"


async def test_a_message_that_does_not_fit_leaves_the_conversation_and_is_given_back() -> None:
    refused: list[Any] = [ContextOverflow("no", 300_000, 8192)]
    journal = MemoryJournal()
    model = ScriptedModel(text("hello"), refused, text("fine"))
    session = open_session(model, journal=journal)
    reader = asyncio.create_task(collect(session.subscribe()))
    for words in ("hi", "big " * 9, "and now?"):
        session.submit(words)
    await session.idle()
    await session.close()
    events = await reader
    end = of(TurnEnded, events)[1]
    assert (end.outcome, end.kind) == ("failed", "context")
    assert all(part in end.detail for part in ("300000 tokens", "holds 8192", "not kept in the conversation"))
    assert [e.text for e in of(GivenBack, events)] == ["big " * 9]
    assert [m.text for m in model.requests[-1].messages] == ["hi", "hello", "and now?"]
    again = ScriptedModel()
    await one_turn(open_session(again, past=journal.events), "more")
    assert [m.text for m in again.requests[0].messages] == ["hi", "hello", "and now?", "fine", "more"]


async def test_a_turn_that_outgrows_the_context_later_keeps_its_message() -> None:
    model = ScriptedModel(calls(call("bash", "a", value="ls")), [ContextOverflow("no room", 9000, 8192)], text("fine"))
    session = open_session(model)
    reader = asyncio.create_task(collect(session.subscribe()))
    session.submit("go")
    session.submit("and now?")
    await session.idle()
    await session.close()
    events = await reader
    assert of(TurnEnded, events)[0].detail == "no room" and not of(GivenBack, events)
    assert [m.text for m in model.requests[-1].messages] == ["go", "", "ran ls", "and now?"]
