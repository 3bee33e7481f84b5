"""A server that has lost a request, against one that only takes its time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.errors import Stalled
from agent.events import Endpoint
from agent.messages import UserMessage
from agent.model.client import OpenAIModel
from agent.protocols import ModelChunk, ModelRequest, TextChunk
from tests.fakes.llama import FakeLlama, say

HELLO = ModelRequest("system", "", (UserMessage("m1", "hello"),))


def client(server: FakeLlama, **options: Any) -> OpenAIModel:
    async def ready() -> Endpoint:
        return Endpoint(server.url, "secret", "fake-31b")

    return OpenAIModel(ready, **options)


@pytest.mark.parametrize("words", ["", "some words before"])
async def test_silence_of_an_idle_server_means_that_the_request_is_lost(words: str) -> None:
    with FakeLlama([say(words, hold=True)]) as server:
        with pytest.raises(Stalled, match="it is idle and sends nothing") as caught:
            async for _ in client(server, look_after=0.1).stream(HELLO):
                pass
        assert await asyncio.to_thread(server.disconnected.wait, 10)
    assert caught.value.retryable
    assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]


async def test_silence_of_a_server_at_work_is_borne_until_the_limit() -> None:
    with FakeLlama([say("some words", hold=True)], busy=True) as server:
        with pytest.raises(Stalled, match="Nothing came") as caught:
            async for _ in client(server, look_after=0.02, silence=0.6).stream(HELLO):
                pass
        assert server.looks.count("/slots") > 3 and not caught.value.retryable


async def test_a_server_without_slots_is_given_the_benefit_of_the_doubt() -> None:
    with FakeLlama([say("some words", hold=True)]) as server:
        server.metrics = ["x"]  # no llama-server
        with pytest.raises(Stalled, match="Nothing came"):
            async for _ in client(server, look_after=0.02, silence=0.4).stream(HELLO):
                pass


async def test_a_reader_that_takes_its_time_is_no_silence_of_the_server() -> None:
    got: list[ModelChunk] = []
    with FakeLlama([say("one two three")]) as server:
        async for chunk in client(server, look_after=0.02).stream(HELLO):
            got.append(chunk)
            await asyncio.to_thread(server.closing.wait, 0.1)
    assert "".join(c.text for c in got if isinstance(c, TextChunk)) == "one two three"


async def test_stopping_while_the_server_is_silent_is_a_stop_and_not_a_stall() -> None:
    async def read(server: FakeLlama) -> None:
        async for _ in client(server, look_after=0.05).stream(HELLO):
            pass

    with FakeLlama([say("some words", hold=True)], busy=True) as server:
        task = asyncio.create_task(read(server))
        assert await asyncio.to_thread(server.held.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.disconnected.wait, 10)
