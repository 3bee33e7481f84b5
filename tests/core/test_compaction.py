"""A conversation that outgrows the context goes on shorter, loses nothing that must stay, and never goes round in
circles. The model is played from a script; it counts a quarter of the characters as tokens, and refuses what does not
fit, as a server does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from agent.codec import decode, encode
from agent.core.budget import REPLY, reserved, text_of
from agent.core.session import Session
from agent.core.shortening import groups
from agent.errors import AgentError, ContextOverflow, ServerUnavailable, ToolFailure
from agent.events import Compacted, Compacting, Event, GivenBack, Notice, TurnEnded
from agent.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from agent.model.wire import Manner, messages_json
from agent.protocols import FinishChunk, ModelChunk, ModelRequest, TextChunk
from tests.core.test_session import collect, of
from tests.fakes.core import FakeTool, MemoryJournal, ScriptedModel, Step, call, calls, legal, open_session, rough, text


def size(request: ModelRequest) -> int:
    words = sum(len(text_of(m)) + 20 for m in request.messages)
    return (len(request.system) + len(request.tools) + words) // 4


async def counted(request: ModelRequest) -> int:
    return size(request)


class Served(ScriptedModel):
    """`summary` answers what may not call tools, the script all else. `refuses`: whatever its size."""

    def __init__(self, n_ctx: int, *replies: list[Step], summary: list[Step] | None = None, refuses: bool = False):
        super().__init__(*replies)
        self.n_ctx, self.refuses = n_ctx, refuses
        self.summary = text("SUMMARISED") if summary is None else summary
        self.refused = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        tokens = size(request)
        if self.refuses or tokens > self.n_ctx:
            self.refused += 1
            self.requests.append(request)
            tokens = max(tokens, self.n_ctx + 1)
            raise ContextOverflow(f"{tokens} tokens, but the context holds {self.n_ctx}", tokens, self.n_ctx)
        if not request.may_call:
            self.replies.insert(0, list(self.summary))
        async for chunk in super().stream(request):
            if isinstance(chunk, FinishChunk):
                chunk = FinishChunk(chunk.reason, Usage(tokens, 0, 5), chunk.timings)
            yield chunk

    @property
    def asked(self) -> list[ModelRequest]:
        """For a summary."""
        return [r for r in self.requests if not r.may_call]


def opened(model: Served, *tools: FakeTool, exact: bool = True, **options: Any) -> Session:
    return open_session(model, *tools, counter=rough(model.n_ctx, **({"ask": counted} if exact else {})), **options)


def output(words: int, **options: Any) -> FakeTool:
    return FakeTool(act=lambda value, ctx: f"output of {value}: " + "word " * words, **options)


def bash(*values: str) -> list[list[Step]]:
    return [calls(call("bash", f"id-{v}", value=v)) for v in values]


async def played(session: Session, *prompts: str) -> list[Event]:
    """All events of a session that is closed when the prompts are done."""
    reader = asyncio.create_task(collect(session.subscribe()))
    for prompt in prompts:
        session.submit(prompt)
    await session.idle()
    await session.close()
    return await reader


@pytest.mark.parametrize("exact", [True, False], ids=["server-counts", "usage-only"])
@pytest.mark.parametrize(("n_ctx", "words"), [(2048, 60), (4096, 200), (8192, 400), (131072, 6000)])
async def test_a_long_turn_is_compacted_in_time_and_goes_on(n_ctx: int, words: int, exact: bool) -> None:
    model = Served(n_ctx, *bash(*(str(n) for n in range(40))), text("finished"))
    tool = output(words)
    events = await played(opened(model, tool, exact=exact), "build the thing, and call it Ada")
    assert of(TurnEnded, events)[0].outcome == "done" and len(tool.ran) == 40
    assert model.asked and len(of(Compacted, events)) == len(model.asked)
    assert model.refused <= len(model.asked), "each refusal is answered by one compaction"
    assert all(size(r) + (r.max_tokens or 0) <= n_ctx for r in model.asked), "the request itself fits"
    assert all(legal(r.messages) for r in model.requests)
    said = "".join(m.text for m in model.requests[-1].messages if isinstance(m, UserMessage))
    assert "build the thing, and call it Ada" in said and "SUMMARISED" in said


async def test_the_summary_is_asked_as_the_next_message_of_what_the_server_has_read() -> None:
    model = Served(4096, *bash(*(str(n) for n in range(20))))
    await played(opened(model, output(200)), "go")
    for at, request in enumerate(model.requests):
        if request.may_call:
            continue
        before, now = model.requests[at - 1], request
        assert (now.system, now.tools, now.thinking) == (before.system, before.tools, before.thinking)
        read = messages_json(before.system, before.messages, Manner())
        assert messages_json(now.system, now.messages, Manner())[: len(read)] == read


async def test_one_output_that_is_too_long_is_cut_without_asking_for_a_summary() -> None:
    model = Served(4096, *bash("ls"), text("fits"))
    events = await played(opened(model, output(6000), exact=False), "list it all")
    assert model.refused <= 1 and not model.asked
    assert of(TurnEnded, events)[0].outcome == "done"
    (event,) = of(Compacted, events)
    assert event.dropped_messages == 0 and "shortened" in event.sentence
    last = model.requests[-1].messages
    assert last[0].text == "list it all" and "characters left out" in last[-1].text


async def test_what_never_fits_is_tried_twice_at_most_and_says_both_numbers() -> None:
    model = Served(8192, refuses=True)
    events = await played(opened(model), "go")
    assert len(model.requests) == 1, "there was nothing to make shorter"
    end = of(TurnEnded, events)[0]
    assert end.kind == "context" and "8193" in end.detail and "8192" in end.detail
    assert [e.text for e in of(GivenBack, events)] == ["go"]


async def test_a_refusal_is_answered_by_one_compaction_and_one_more_try() -> None:
    """Also where the request for the summary is refused as well."""
    journal = MemoryJournal()
    await played(opened(Served(8192, *bash("a", "b"), text("done")), output(900), journal=journal), "first")
    model = Served(8192, refuses=True)
    events = await played(opened(model, past=journal.events), "second")
    assert len([r for r in model.requests if r.may_call]) == 2 and len(model.asked) <= 1
    assert len(of(Compacted, events)) == 1, "without the model's help"
    assert of(TurnEnded, events)[-1].kind == "context"
    again = Served(8192, text("here"))
    after = await played(opened(again, past=[*journal.events, of(Compacted, events)[0]]), "third")
    assert of(TurnEnded, after)[-1].outcome == "done"
    assert any("first" in m.text for m in again.requests[0].messages)


async def test_a_message_that_cannot_fit_costs_no_compaction() -> None:
    journal = MemoryJournal()
    await played(opened(Served(4096, *bash("a"), text("done")), output(300), journal=journal), "first")
    model = Served(4096, text("fine"))
    events = await played(opened(model, past=journal.events), "big " * 5000, "and now?")
    assert not of(Compacted, events) and not model.asked
    assert [e.outcome for e in of(TurnEnded, events)][-2:] == ["failed", "done"]
    assert [m.text for m in model.requests[-1].messages if isinstance(m, UserMessage)] == ["first", "and now?"]


async def test_words_plan_tasks_skills_and_the_last_failure_stay_over_many_compactions() -> None:
    def act(value: str, ctx: Any) -> str:
        if value == "make test":
            raise ToolFailure("2 tests failed: test_ada, test_bob")
        return f"output of {value}: " + "word " * 150

    tools = (
        FakeTool(act=act),
        FakeTool("todo", act=lambda value, ctx: "noted", kind="think"),
        FakeTool("skill", act=lambda value, ctx: "ALWAYS WRITE TESTS FIRST", kind="think"),
        FakeTool("ask", act=lambda value, ctx: "the second one", kind="think"),
    )
    many = bash(*(f"step {n}" for n in range(30)))
    model = Served(
        4096,
        text("PLAN:first-a-then-b"),
        calls(call("skill", "s1", value="testing")),
        calls(call("todo", "t1", value="x", items=["write a", "write b (open)"])),
        calls(call("ask", "q1", value="which one?")),
        calls(call("bash", "f1", value="make test")),
        *many,
        text("one"),
        *bash(*(f"more {n}" for n in range(30))),
        text("two"),
    )
    session = opened(model, *tools)
    session.set_mode("plan")
    session.submit("plan it")
    await session.idle()
    session.set_mode("auto")
    events = await played(session, "now do it, in the colour teal", "go on with more")
    assert len(of(Compacted, events)) >= 3
    head = next(m.text for m in model.requests[-1].messages if isinstance(m, UserMessage))
    for kept in ("plan it", "now do it, in the colour teal", "go on with more", "PLAN:first-a-then-b"):
        assert kept in head
    for kept in ("write b (open)", "ALWAYS WRITE TESTS FIRST", "2 tests failed: test_ada, test_bob"):
        assert kept in head
    assert "which one?) the second one" in head


async def test_a_summary_that_is_stopped_changes_nothing() -> None:
    hang = asyncio.Event()
    model = Served(4096, *bash("a"), text("done"), text("fine"), summary=[TextChunk("half a summ"), hang])
    session = opened(model, output(900))
    reader = asyncio.create_task(collect(session.subscribe()))
    session.submit("first")
    await session.idle()
    before = session.request()
    asking = asyncio.create_task(session.compact())
    while not model.asked:
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    await session.cancel()
    with pytest.raises(AgentError, match="as it was"):
        await asking
    assert session.request() == before
    session.submit("and now?")
    await session.idle()
    await session.close()
    events = await reader
    assert not of(Compacted, events) and of(TurnEnded, events)[-1].outcome == "done"
    assert of(Compacting, events)[-1].words is None


async def test_a_server_that_goes_away_during_the_summary_costs_nothing() -> None:
    model = Served(4096, *bash(*(str(n) for n in range(12))), text("done"), summary=[ServerUnavailable("gone")])
    session = opened(model, output(200))
    events = await played(session, "go")
    assert of(Notice, events) and all("could not be compacted: gone" in n.text for n in of(Notice, events))
    assert of(TurnEnded, events)[0].outcome == "done", "a refusal is answered without the model's help"


async def test_a_resumed_session_sees_exactly_the_same_conversation() -> None:
    journal = MemoryJournal()
    model = Served(4096, *bash(*(str(n) for n in range(25))), text("done"), text("again"))
    session = opened(model, output(200), journal=journal)
    session.submit("go")
    await session.idle()
    before = session.request()
    await session.close()
    assert any(isinstance(e, Compacted) for e in journal.events)
    stored: list[Any] = [decode(encode(e)) for e in journal.events]
    assert stored == journal.events
    resumed = opened(Served(4096), past=stored)
    assert resumed.request() == before
    await resumed.close()


async def test_an_id_of_a_call_that_was_compacted_away_is_not_used_again() -> None:
    journal = MemoryJournal()
    same = [calls(call("bash", "same", value=str(n))) for n in range(30)]
    model = Served(4096, *same, text("done"))
    session = opened(model, output(200), journal=journal)
    await played(session, "go")
    ids = [c.id for e in journal.events if hasattr(e, "message") for c in getattr(e.message, "calls", ())]
    assert len(ids) == len(set(ids)) == 30


async def test_a_context_that_compaction_cannot_help_does_not_go_round_in_circles() -> None:
    model = Served(1024, *bash(*(str(n) for n in range(30))), text("done"))
    events = await played(opened(model, output(150)), "do " + "this and that " * 60)
    replies = len([e for e in events if type(e).__name__ == "AssistantAdded"])
    assert len(of(Compacted, events)) <= replies + 1
    assert len(model.requests) <= 3 * (replies + 1)


async def test_asking_for_it_takes_a_focus_and_waits_for_the_running_turn() -> None:
    hang = asyncio.Event()
    model = Served(32768, *bash("a", "b", "c"), [TextChunk("an"), hang, TextChunk("swer"), *text("")[-1:]])
    session = opened(model, output(300))
    reader = asyncio.create_task(collect(session.subscribe()))
    session.submit("first")
    while len(model.requests) < 4:
        await asyncio.sleep(0)
    asking = asyncio.create_task(session.compact("the colours"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not model.asked
    hang.set()
    done = await asking
    await session.close()
    events = await reader
    assert done is not None and done in events and done.before and done.after and done.after < done.before / 2
    assert "the colours" in model.asked[0].messages[-1].text
    assert events.index(done) > events.index(of(TurnEnded, events)[0])


async def test_there_is_nothing_to_compact_in_a_short_conversation() -> None:
    model = Served(32768, text("hello"))
    session = opened(model)
    assert await session.compact() is None
    session.submit("hi")
    await session.idle()
    assert await session.compact() is None and not model.asked
    await session.close()


async def test_a_model_that_answers_with_a_call_or_nothing_leaves_the_list_of_what_was_done() -> None:
    for summary in (calls(call("bash", "zz", value="rm")), text("")[-1:]):
        tool = output(300)
        model = Served(4096, *bash("one", "two", "three"), text("done"), summary=list(summary))
        session = opened(model, tool)
        session.submit("first")
        await session.idle()
        done = await session.compact()
        await session.close()
        assert done is not None and done.summary == "" and "rm" not in tool.ran
        assert "bash two" in done.messages[0].text


@pytest.mark.parametrize("n_ctx", [2048, 8192, 32768, 131072])
def test_the_reply_keeps_room_but_never_more_than_a_quarter(n_ctx: int) -> None:
    assert reserved(n_ctx, None) == min(REPLY, n_ctx // 4)
    assert reserved(n_ctx, 512) == 512


async def test_thinking_goes_with_each_request_and_a_resumed_session_keeps_it() -> None:
    journal = MemoryJournal()
    model = Served(8192)
    session = opened(model, journal=journal, thinking=False)
    session.submit("a")
    await session.idle()
    session.set_thinking(800)
    await played(session, "b")
    assert [r.thinking for r in model.requests] == [False, 800]
    again = opened(Served(8192), past=journal.events, thinking=False)
    assert again.thinking == 800
    await again.close()


def test_a_reply_and_its_results_belong_together() -> None:
    reply, result = AssistantMessage("m1", ""), ToolMessage("x", "bash", "1")
    found = groups([UserMessage("m0", "a"), reply, result, UserMessage("m2", "b")])
    assert found == [[UserMessage("m0", "a")], [reply, result], [UserMessage("m2", "b")]]
