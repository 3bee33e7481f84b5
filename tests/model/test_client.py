"""The model client against a server on a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from agent.errors import BadReply, ContextOverflow, Looping, ModelFault, Refused, ServerUnavailable, Stalled
from agent.events import Endpoint
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent.model.client import OpenAIModel
from agent.protocols import CallChunk, FinishChunk, ModelChunk, ModelRequest, PrefillChunk, TextChunk, ThinkingChunk
from tests.fakes.llama import FakeLlama, Reply, call, chunk, ending, error, opening, say

HELLO = ModelRequest("system", "", (UserMessage("m1", "hello"),))


async def ask(server: FakeLlama, request: ModelRequest = HELLO) -> list[ModelChunk]:
    return [c async for c in client(server.url).stream(request)]


def client(url: str, **options: Any) -> OpenAIModel:
    async def ready() -> Endpoint:
        return Endpoint(url, "secret", "fake-31b")

    return OpenAIModel(ready, **options)


def text_of(chunks: list[ModelChunk]) -> str:
    return "".join(c.text for c in chunks if isinstance(c, TextChunk))


async def test_words_thoughts_progress_usage_and_timings_arrive() -> None:
    with FakeLlama([say("The sea is deep.", think="Let me think.")]) as server:
        chunks = await ask(server)
    assert text_of(chunks) == "The sea is deep."
    assert "".join(c.text for c in chunks if isinstance(c, ThinkingChunk)) == "Let me think."
    assert PrefillChunk(40, 10, 40, 12.5) in chunks
    end = chunks[-1]
    assert isinstance(end, FinishChunk) and end.reason == "stop"
    assert (end.usage.prompt_tokens, end.usage.cached_tokens, end.usage.generated_tokens) == (40, 10, 8)
    assert (end.timings.acceptance, end.timings.tokens_per_step, end.timings.cache_share) == (0.5, 1.6, 0.25)


async def test_the_request_carries_what_the_server_needs_and_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "cloud")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    tools = json.dumps([{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}])
    with FakeLlama([say("ok")]) as server:
        await ask(server, ModelRequest("system", tools, (UserMessage("m1", "hello"),), 64))
    body, headers = server.requests[0], {k.lower(): v for k, v in server.headers_seen[0].items()}
    assert body["stream"] and body["return_progress"] and body["stream_options"] == {"include_usage": True}
    assert body["tools"] == json.loads(tools) and body["max_tokens"] == 64
    assert headers["authorization"] == "Bearer secret"
    assert "x-conversation-id" not in headers and not any("cloud" in v for v in headers.values())


async def test_a_call_streamed_in_pieces_is_passed_on_in_pieces() -> None:
    with FakeLlama([call("write", file="a.py", text="print('é')\n")]) as server:
        chunks = await ask(server)
    pieces = [c for c in chunks if isinstance(c, CallChunk)]
    assert pieces[0].name == "write" and pieces[0].id
    assert json.loads("".join(p.arguments for p in pieces)) == {"file": "a.py", "text": "print('é')\n"}


@pytest.mark.parametrize(
    "delta",
    [
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash", "arguments": {"command": "ls"}}}]},
        {"tool_calls": [{"id": "c", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}]},
        {"tool_calls": [{"index": 0, "id": None, "function": {"name": "bash", "arguments": '{"command": "ls"}'}}]},
    ],
)
async def test_calls_in_odd_but_legal_shapes_are_understood(delta: dict[str, Any]) -> None:
    with FakeLlama([[*opening(), chunk(delta), *ending("tool_calls")]]) as server:
        found = next(c for c in await ask(server) if isinstance(c, CallChunk))
    assert (found.name, json.loads(found.arguments)) == ("bash", {"command": "ls"})


@pytest.mark.parametrize(
    "step",
    [
        {"data": {"choices": None}},
        {"data": {"choices": []}},
        {"data": {"object": "x"}},
        {"data": {"choices": [{"delta": None}]}},
        {"data": {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": None}}]}},
        {"data": {"choices": [], "usage": None, "timings": "soon"}},
        {"raw": b'data: {"timings": {"predicted_n": Infinity, "prompt_ms": NaN}}\n\n'},
        {"raw": b": a comment\n\n"},
        {"raw": b"event: note\r\ndata: {}\r\n\r\n"},
    ],
)
async def test_empty_and_unusual_chunks_change_nothing(step: dict[str, Any]) -> None:
    with FakeLlama([[*opening(), step, chunk({"content": "ok"}), *ending("stop")]]) as server:
        assert text_of(await ask(server)) == "ok"


async def test_text_survives_byte_for_byte_whatever_the_framing() -> None:
    words = "héllo 🙂 a\u2028b\u2029c\u0085d\r\ne\tü"
    data = {"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": None}]}
    raw = b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\r\n\r\n"
    pieces: Reply = [{"raw": raw[i : i + 1]} for i in range(len(raw))]
    with FakeLlama([[*opening(), *pieces, *ending("stop")]]) as server:
        assert text_of(await ask(server)) == words


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (error(500, "kernel exploded"), Refused, "kernel exploded"),
        (error(401, "Invalid API Key", "authentication_error"), Refused, "DFLASH_SERVER_KEY"),
        (error(503, "Loading model", "unavailable_error"), ServerUnavailable, "Loading model"),
        ([{"status": 502, "body": "<html><style>x{}</style><h1>Bad gateway</h1></html>"}], Refused, "Bad gateway"),
        ([*opening(), {"data": {"error": {"message": "Compute error.", "code": 500}}}], Refused, "Compute error."),
        ([*opening(), chunk({"content": "ha"}), {"close": "reset"}], BadReply, "broke off"),
        ([{"status": 200, "json": {"error": {"message": "bad request inside 200"}}}], Refused, "inside 200"),
        ([*opening(), {"raw": b"data: {not json\n\n"}], BadReply, "not a chat stream"),
        ([*opening(), {"data": {"error": {"message": "Context size has been exceeded."}}}], ContextOverflow, "filled"),
    ],
)
async def test_each_failure_keeps_the_servers_own_words(reply: Reply, kind: type[ModelFault], says: str) -> None:
    with FakeLlama([reply]) as server, pytest.raises(kind, match=says):
        await ask(server)


async def test_a_prompt_that_does_not_fit_says_both_numbers() -> None:
    words = "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"
    numbers = {"n_prompt_tokens": 9000, "n_ctx": 8192}
    reply = error(400, words, "exceed_context_size_error", **numbers)
    with FakeLlama([reply]) as server, pytest.raises(ContextOverflow, match=r"9000 tokens.*8192") as caught:
        await ask(server)
    assert (caught.value.prompt_tokens, caught.value.n_ctx) == (9000, 8192)


async def test_a_stream_that_just_ends_has_no_reason() -> None:
    with FakeLlama([[*opening(), chunk({"content": "half"})]]) as server:
        end = (await ask(server))[-1]
    assert isinstance(end, FinishChunk) and end.reason is None


async def test_nobody_at_the_port_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServerUnavailable):
        _ = [c async for c in client(url).stream(HELLO)]


async def test_closing_the_stream_closes_the_connection() -> None:
    with FakeLlama([say("half of the", hold=True)]) as server:
        stream = client(server.url).stream(HELLO)
        async for piece in stream:
            if isinstance(piece, TextChunk) and piece.text == "the":
                break
        await stream.aclose()
        assert server.disconnected.wait(5)


async def test_history_is_sent_back_in_a_form_the_server_accepts() -> None:
    history = (
        UserMessage("m1", "one"),
        AssistantMessage("m2", "", "only a thought", finish="interrupted"),
        UserMessage("m3", "two \ud800"),
        AssistantMessage("m4", "let me", calls=(ToolCall("c1", "bash", '{"b":1, "a":2}'), ToolCall("c2", "", "{oops"))),
        ToolMessage("c1", "bash", "out"),
        ToolMessage("c2", "", "bad call", failed=True),
    )
    with FakeLlama([say("ok")]) as server:
        await ask(server, ModelRequest("", "", history))
    sent = server.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool"]
    assert sent[0]["content"] == "one\n\ntwo \ufffd"
    assert [c["function"]["arguments"] for c in sent[1]["tool_calls"]] == ['{"b":1, "a":2}', "{}"]


@pytest.mark.parametrize("words", ["", "some words before"])
async def test_a_server_that_falls_silent_is_stalled_and_not_retried(words: str) -> None:
    with FakeLlama([say(words, hold=True)]) as server:
        with pytest.raises(Stalled) as caught:
            async for _ in client(server.url, silence=0.3).stream(HELLO):
                pass
        assert await asyncio.to_thread(server.disconnected.wait, 10)
    assert not caught.value.retryable and "Nothing came from the model server" in str(caught.value)


async def test_cancelling_the_task_in_mid_reply_closes_the_connection() -> None:
    arrived: list[ModelChunk] = []

    async def read(server: FakeLlama) -> None:
        async for piece in client(server.url).stream(HELLO):
            arrived.append(piece)

    with FakeLlama([say("some words", hold=True)]) as server:
        task = asyncio.create_task(read(server))
        assert await asyncio.to_thread(server.held.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.disconnected.wait, 10)
    assert text_of(arrived) in ("some words", "some ", "")


async def test_a_reply_that_repeats_itself_without_end_is_stopped_on_our_side() -> None:
    with FakeLlama([[*opening(), *(chunk({"content": "//////////"}) for _ in range(200)), {"hold": True}]]) as server:
        with pytest.raises(Looping) as caught:
            async for _ in client(server.url).stream(HELLO):
                pass
        assert await asyncio.to_thread(server.disconnected.wait, 10)
    assert caught.value.piece == "/" and not caught.value.retryable
