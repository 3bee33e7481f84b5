"""What was drafted and accepted, told apart by thinking, prose, code and tool arguments."""

from __future__ import annotations

from typing import Any

from agent.messages import Share
from agent.model.wire import Reader
from tests.fakes.llama import chunk


def timings(tokens: int, drafted: int, accepted: int) -> dict[str, Any]:
    return {"timings": {"predicted_n": tokens, "draft_n": drafted, "draft_n_accepted": accepted}}


def read(*chunks: dict[str, Any]) -> tuple[Share, ...]:
    reader = Reader()
    for piece in chunks:
        list(reader.read(piece))
    return reader.finish().timings.split


def said(text: str, *counts: int) -> dict[str, Any]:
    return chunk({"content": text})["data"] | timings(*counts)


def call(arguments: str, *counts: int) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})["data"] | timings(*counts)


def test_a_reply_of_all_kinds_is_told_apart_and_adds_up() -> None:
    thought = chunk({"reasoning_content": "Hm."})["data"] | timings(3, 7, 1)
    parts = read(
        {"timings": {"predicted_n": 0}, "prompt_progress": {"total": 9, "processed": 9}},
        thought,
        said("Here it is:\n", 8, 14, 4),
        said("```py", 9, 14, 4),
        said("thon\nx = 1\n", 20, 21, 11),
        said("y = 2\n", 28, 28, 18),
        said("```\nDone.", 31, 35, 18),
        call('{"file":', 40, 42, 24),
    )
    assert parts == (
        Share("thinking", 3, 7, 1),
        Share("prose", 6, 7, 3),
        Share("code", 22, 21, 14),
        Share("calls", 9, 7, 6),
    )
    assert [sum(s) for s in zip(*((p.tokens, p.drafted, p.accepted) for p in parts), strict=True)] == [40, 42, 24]


def test_the_fence_of_another_length_does_not_close_code() -> None:
    parts = read(
        said("````md\n", 1, 0, 0), said("```\nstill code\n", 9, 0, 0), said("````\n", 10, 0, 0), said("x", 12, 0, 0)
    )
    assert parts == (Share("prose", 2), Share("code", 10))


def test_a_server_that_reports_once_tells_nothing_apart() -> None:
    assert read(chunk({"content": "hello"})["data"], chunk({}, "stop")["data"] | timings(5, 0, 0)) == ()


def test_counters_of_other_types_do_no_harm() -> None:
    odd: dict[str, Any] = {"predicted_n": "5", "draft_n": None, "draft_n_accepted": [1]}
    assert read(chunk({"content": "a"})["data"] | {"timings": odd}, said("b", 4, 2, 1)) == (Share("prose", 4, 2, 1),)
