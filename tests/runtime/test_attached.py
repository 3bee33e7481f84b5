"""Attaching to what somebody else runs: right, wrong, and not there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.errors import ConfigError, ServerUnavailable
from agent.events import ServerState
from agent.runtime.attached import Attached, normal_url
from tests.fakes.llama import FakeLlama


@pytest.mark.parametrize("text", ["http://127.0.0.1:8080", "127.0.0.1:8080", "http://127.0.0.1:8080/v1/"])
def test_an_address_may_be_written_in_several_ways(text: str) -> None:
    assert normal_url(text) == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://",
        "127.0.0.1:99999",
        "127.0.0.1:0",
        "ftp://x",
        "http://u:p@h",
        "host:abc",
        "http://h/?q=1",
        "http://ex\u00e4mple..x",
    ],
)
def test_what_is_no_address_is_a_usage_error(text: str) -> None:
    with pytest.raises(ConfigError, match="--server"):
        normal_url(text)


async def test_a_model_server_says_what_it_is_and_is_asked_once() -> None:
    states: list[ServerState] = []
    with FakeLlama(n_ctx=4096) as server:
        attached = Attached(f"{server.url}/v1", {"DFLASH_SERVER_KEY": "k"}, states.append)
        first, second = await asyncio.gather(attached.ensure_ready(), attached.ensure_ready())
    assert first == second and (first.n_ctx, first.speculative, first.attached) == (4096, True, True)
    assert (first.model, first.base_url, first.api_key) == ("fake-31b", server.url, "k")
    assert [s.kind for s in states] == ["starting", "ready"]


async def test_nobody_there_is_one_sentence_with_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"127.0.0.1:{free.getsockname()[1]}"
    attached = Attached(url, {}, lambda state: None)
    with pytest.raises(ServerUnavailable, match=f"Nobody answers at http://{url}"):
        await attached.ensure_ready()
    assert attached.state.kind == "failed"


@pytest.mark.parametrize("key", ["k\u00e9y", "a\nb"])
def test_a_key_that_no_header_can_carry_is_a_usage_error(key: str) -> None:
    with pytest.raises(ConfigError, match="DFLASH_SERVER_KEY"):
        Attached("127.0.0.1:1", {"DFLASH_SERVER_KEY": key}, lambda state: None)


async def test_a_loading_server_is_waited_for_until_the_user_has_enough() -> None:
    loading: asyncio.Queue[ServerState] = asyncio.Queue()
    async with answering(b"HTTP/1.1 503 Wait\r\nContent-Length: 2\r\n\r\n{}") as url:
        attached = Attached(url, {}, loading.put_nowait)
        waiting = asyncio.create_task(attached.ensure_ready())
        while str((await loading.get()).phase) != "loading the model":
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert attached.state.kind == "starting"  # others may wait for the same look
        await attached.stop()
    assert attached.state.kind == "stopped"


@asynccontextmanager
async def answering(reply: bytes) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>", "not a model server"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "not a model server"),
        (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "DFLASH_SERVER_KEY"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
    ],
)
async def test_a_stranger_at_the_address_gets_no_prompt(reply: bytes, says: str) -> None:
    async with answering(reply) as url:
        with pytest.raises(ServerUnavailable, match=says):
            await Attached(url, {}, lambda state: None).ensure_ready()


async def test_a_wrong_address_is_not_asked_again() -> None:
    async with answering(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n") as url:
        with pytest.raises(ServerUnavailable) as caught:
            await Attached(url, {}, lambda state: None).ensure_ready()
    assert not caught.value.retryable


async def test_a_server_that_has_answered_before_is_waited_for_while_it_is_away() -> None:
    states: list[ServerState] = []
    with FakeLlama() as server:
        attached = Attached(server.url, {}, states.append)
        await attached.ensure_ready()
        port = server.server_address[1]
    attached.suspect("the connection was refused")
    again = asyncio.create_task(attached.ensure_ready())
    async with asyncio.timeout(20):
        while "waiting for the server to come back" not in {str(s.phase) for s in states}:
            await asyncio.sleep(0.01)
    assert not again.done()
    with FakeLlama(port=port, n_ctx=2048):
        assert (await again).n_ctx == 2048
    await attached.stop()


async def test_who_asks_right_behind_a_lasting_failure_hears_it_and_nobody_is_asked_again() -> None:
    looks: list[str] = []
    async with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as url:
        attached = Attached(url, {}, lambda state: looks.append(state.kind))
        for _ in range(3):
            with pytest.raises(ServerUnavailable, match="not a model server") as failure:
                await attached.ensure_ready()
            assert not failure.value.retryable
    assert looks == ["starting", "failed"]
