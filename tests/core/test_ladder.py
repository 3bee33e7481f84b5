"""Calls as models really write them, from the reply to the file: what each of them does, and what it must not do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.core.repeats import Trail
from agent.core.stats import call_figures
from agent.events import AssistantAdded, CallPlanned, DurableEvent, ResultAdded, TurnEnded
from agent.messages import ToolCall
from agent.model.calls import LenientCalls
from agent.model.wire import Manner, messages_json
from agent.protocols import CallChunk, TextChunk
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools
from agent.workspace.paths import Workspace
from tests.fakes.core import (
    FakeTool,
    MemoryJournal,
    ScriptedModel,
    Step,
    call,
    calls,
    finish,
    legal,
    open_session,
    text,
)

CORPUS = [json.loads(line) for line in (Path(__file__).parents[1] / "corpus" / "calls.jsonl").open(encoding="utf-8")]
START = {"seen.txt": "one\ntwo\nthree\n"}


def reply_of(case: dict[str, Any]) -> list[Step]:
    said: list[Step] = [TextChunk(case["text"])] if "text" in case else []
    made: list[Step] = []
    for number, (name, raw) in enumerate(case.get("calls", [])):
        arguments = raw["repeat"][0] * raw["repeat"][1] if isinstance(raw, dict) else raw
        made.append(CallChunk(number, f"c{number}", name, arguments))
    return [*said, *made, finish(case["finish"])]


async def events_of(case: dict[str, Any], project: Path) -> tuple[list[DurableEvent], ScriptedModel]:
    book, journal = ProcessBook(), MemoryJournal()
    model = ScriptedModel(reply_of(case), text("ok"))
    tools = build_tools(Workspace(project), os.environ, project.parent / "logs", book)
    session = open_session(model, *tools, journal=journal, reader=LenientCalls())  # type: ignore[arg-type]
    session.submit("go")
    await session.idle()
    await session.close()
    await book.stop_all()
    return journal.events, model


@pytest.mark.parametrize("case", CORPUS, ids=lambda c: c["id"])
async def test_a_broken_call_does_what_was_certainly_meant_or_nothing(case: dict[str, Any], tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name, content in START.items():
        (project / name).write_text(content)
    events, model = await events_of(case, project)
    files = {p.relative_to(project).as_posix(): p.read_bytes() for p in project.rglob("*") if p.is_file()}
    assert files == {name: content.encode() for name, content in (START | case["files"]).items()}
    results = [e for e in events if isinstance(e, ResultAdded)]
    assert sum(not r.failed for r in results) == case["ran"], results
    if "says" in case:
        assert any(case["says"] in r.text for r in results if r.failed), results
    if "mending" in case:
        assert next(list(e.mending) for e in events if isinstance(e, CallPlanned)) == case["mending"]
    if "left" in case:
        assert next(e.message.text for e in events if isinstance(e, AssistantAdded)) == case["left"]
    assert all(legal(r.messages) for r in model.requests)
    assert all(len(r.text) < 500 for r in results)


async def test_what_it_took_to_read_the_calls_is_counted(tmp_path: Path) -> None:
    wanted = {"twice_the_same": "repaired", "path_content": "coerced", "cut_in_text": "refused"}
    wanted |= {"text_hermes": "recovered", "duplicate": "duplicates"}
    for case in (c for c in CORPUS if c["id"] in wanted):
        project = tmp_path / case["id"] / "project"
        project.mkdir(parents=True)
        counts = call_figures((await events_of(case, project))[0])
        assert {k for k, n in counts.items() if n} == {"calls", wanted[case["id"]]}, case["id"]


async def test_the_model_sees_the_call_that_ran_not_an_empty_one(tmp_path: Path) -> None:
    (case,) = (c for c in CORPUS if c["id"] == "trailing_comma")
    _, model = await events_of(case, tmp_path)
    sent = messages_json("", model.requests[-1].messages, Manner())[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"file": "a.txt", "text": "one\n"}


def again(name: str, *values: str) -> list[list[Step]]:
    return [calls(call(name, value=value)) for value in values]


@pytest.mark.parametrize(
    ("values", "requests"),
    [
        ("aaaaa", 3),
        ("abababab", 6),
        ("abcabcabcabc", 9),
        ("abcdabcdabcdabcd", 12),
        ("aabaab", 7),  # never three times over: ends by itself
        ("abcde", 6),
    ],
)
async def test_the_same_step_or_cycle_three_times_ends_with_a_question(values: str, requests: int) -> None:
    model = ScriptedModel(*again("bash", *values))
    journal = MemoryJournal()
    session = open_session(model, journal=journal)
    session.submit("go")
    await session.idle()
    await session.close()
    end = journal.events[-1]
    assert isinstance(end, TurnEnded) and len(model.requests) == requests
    stopped = requests <= len(values)
    assert (end.kind == "repeated" and end.detail.endswith("?")) == stopped
    assert call_figures(journal.events)["repeated"] == stopped


async def test_a_call_made_again_with_another_result_goes_on() -> None:
    numbers = iter(range(100))
    tool = FakeTool(act=lambda value, ctx: f"{next(numbers)} % done")
    model = ScriptedModel(*again("bash", *"aaaaaa"), text("done"))
    session = open_session(model, tool)
    session.submit("go")
    await session.idle()
    await session.close()
    assert len(model.requests) == 7


async def test_the_second_time_the_model_is_told_and_the_user_is_not() -> None:
    model = ScriptedModel(*again("bash", "a", "a"), text("done"))
    journal = MemoryJournal()
    session = open_session(model, journal=journal)
    session.submit("go")
    await session.idle()
    await session.close()
    first, second = (e for e in journal.events if isinstance(e, ResultAdded))
    assert "gave the same result before" not in first.text and "gave the same result before" in second.text
    assert second.display == first.text


def test_a_failure_with_other_figures_is_the_same_failure_and_patience_is_no_repetition() -> None:
    def made(seconds: float, *texts: str, failed: bool) -> list[bool]:
        trail, stops = Trail(), list[bool]()
        for words in texts:
            trail.made(ToolCall("c", "bash", "{}"), ResultAdded("c", "bash", words, failed, seconds))
            stops.append(trail.step())
        return stops

    assert made(0.1, "1 failed in 0.03s", "1 failed in 0.04s", "1 failed in 0.03s", failed=True) == [False, False, True]
    assert made(0.1, "5 %", "6 %", "7 %", failed=False) == [False] * 3
    assert made(60.0, "not yet", "not yet", "not yet", failed=False) == [False] * 3
