"""Replies that end or begin in ways a well-behaved server does not, against a server on a real socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.errors import BadReply, ContextOverflow, ModelFault, Refused
from agent.events import Endpoint
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent.model.client import OpenAIModel
from agent.model.sse import EventReader
from agent.protocols import FinishChunk, ModelChunk, ModelRequest, TextChunk
from tests.fakes.llama import FakeLlama, Reply, chunk, ending, error, opening, say

HELLO = ModelRequest("system", "", (UserMessage("m1", "hello"),))
BEGUN = [*opening(), chunk({"content": "The answer is"})]


async def ask(server: FakeLlama, request: ModelRequest = HELLO, key: str = "secret") -> list[ModelChunk]:
    async def ready() -> Endpoint:
        return Endpoint(server.url, key, "fake-31b")

    return [c async for c in OpenAIModel(ready).stream(request)]


@pytest.mark.parametrize(
    ("reply", "kind", "says", "retryable"),
    [
        ([*BEGUN, {"raw": b'error: {"code":500,"message":"slot failed"}\n\n'}], Refused, "slot failed", False),
        ([{"raw": b'{"error":{"code":400,"message":"bad inside 200"}}'}], Refused, "bad inside 200", False),
        ([*BEGUN, {"data": {"error": "boom"}}], Refused, "boom", False),
        ([{"raw": b"<html><p>log in</p></html>"}], BadReply, "no chat stream but: log in", True),
        ([{"raw": b""}], BadReply, "without a word", True),
        ([*BEGUN, {"raw": b"data: " + b"[" * 100_000 + b"\n\n"}], BadReply, "not a chat stream", True),
        ([{"status": 422, "json": {"detail": "field required"}}], Refused, "field required", False),
        ([{"status": 400, "json": {"error": "no such model"}}], Refused, r"400: no such model\)", False),
        (error(400, "x" * 900 + " THE END"), Refused, "THE END", False),
        (error(429, "slow down"), Refused, "slow down", True),
        (error(500, "output that does not match the expected peg-gemma4 format"), Refused, "peg-gemma4", True),
        (
            error(400, "maximum context length is 4096 tokens. However, you requested 5000 tokens"),
            ContextOverflow,
            "5000 tokens.*4096",
            False,
        ),
    ],
)
async def test_the_servers_words_reach_the_user(
    reply: Reply, kind: type[ModelFault], says: str, retryable: bool
) -> None:
    with FakeLlama([reply]) as server, pytest.raises(kind, match=says) as caught:
        await ask(server)
    assert caught.value.retryable is retryable


async def test_a_complete_reply_stays_complete_when_the_connection_is_then_reset() -> None:
    with FakeLlama([[*BEGUN, chunk({}, "stop"), {"close": "reset"}]]) as server:
        end = (await ask(server))[-1]
    assert isinstance(end, FinishChunk) and end.reason == "stop"


async def test_nothing_is_waited_for_after_done() -> None:
    with FakeLlama([[*BEGUN, *ending("stop"), {"hold": True}]]) as server:
        assert isinstance((await ask(server))[-1], FinishChunk)
        assert server.disconnected.wait(5)


@pytest.mark.parametrize("figure", ["1e999", "NaN", "-Infinity", "1" + "0" * 400, '"9"', "true", "{}"])
async def test_figures_that_are_none_are_left_out(figure: str) -> None:
    raw = f'data: {{"choices":[],"timings":{{"cache_n":{figure}}},"usage":{{"prompt_tokens":{figure}}}}}\n\n'
    with FakeLlama([[*BEGUN, {"raw": raw.encode()}, chunk({}, "stop")]]) as server:
        end = (await ask(server))[-1]
    assert isinstance(end, FinishChunk) and end.usage.prompt_tokens is None and end.timings.cache_n is None


async def test_a_character_cut_into_two_escapes_arrives_whole() -> None:
    halves = [
        {"raw": b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % half} for half in (b"a\\ud83d", b"\\ude42")
    ]
    with FakeLlama([[*opening(), *halves, *ending("stop")]]) as server:
        text = "".join(c.text for c in await ask(server) if isinstance(c, TextChunk))
    assert text == "a🙂"


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines"])
async def test_a_key_that_no_header_can_carry_is_named(key: str) -> None:
    with FakeLlama() as server, pytest.raises(Refused, match="DFLASH_SERVER_KEY"):
        await ask(server, key=key)


async def test_a_server_without_a_key_is_asked_without_trouble() -> None:
    with FakeLlama([say("ok")]) as server:
        assert isinstance((await ask(server, key=""))[-1], FinishChunk)


@pytest.mark.parametrize("arguments", ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud83d"}', "[1]", "{"])
async def test_arguments_a_strict_reader_refuses_do_not_spoil_later_requests(arguments: str) -> None:
    call = AssistantMessage("m2", "", calls=(ToolCall("c1", "bash", arguments),))
    with FakeLlama([say("ok")]) as server:
        await ask(server, ModelRequest("", "", (UserMessage("m1", "go"), call, ToolMessage("c1", "bash", "no"))))
    assert server.requests[0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("size", [1, 2, 7, 4096])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_the_same_however_the_bytes_are_cut(size: int, end: str) -> None:
    data: Any = json.dumps({"t": "é🙂\u2028\u0085"}, ensure_ascii=False)
    raw = f": ping{end}{end}data:{data}{end}{end}data:{end}{end}event: x{end}data: [DONE]{end}{end}".encode()
    reader = EventReader()
    found = [e for at in range(0, len(raw), size) for e in reader.feed(raw[at : at + size])]
    assert [*found, *reader.finish()] == [data, "[DONE]"]
