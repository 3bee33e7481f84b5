"""How many tokens a text will be. Exact figures come from the server; in between, an estimate that learns from them.
Knows no server and no library: both are handed to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from agent.events import Endpoint
from agent.protocols import ModelRequest

CHARS_PER_TOKEN = 3.6  # code is 3.7 to 4.0 characters a token with Gemma's tokenizer, JSON 4.9, directory listings 1.9
LEAST_RATIO, MOST_RATIO = 0.4, 3.0  # beyond this it is not the tokenizer that differs but something else
SAMPLE = 20_000  # characters of a long text that are encoded; the rest is taken to be like them


class Tokens:
    """`ready`: the server, once it answers. `ask`: its own count of a whole request, None where it cannot say. `load`
    gives a function that counts a text with an encoding; it takes time and memory, so it is called by `prepare` alone,
    in a thread. Until then, or where it raises ImportError, OSError or ValueError, characters are counted."""

    def __init__(
        self,
        ready: Callable[[], Awaitable[Endpoint]],
        ask: Callable[[ModelRequest], Awaitable[int | None]],
        load: Callable[[], Callable[[str], int]],
    ) -> None:
        self._ready = ready
        self._ask = ask
        self._load = load
        self._count: Callable[[str], int] | None = None
        self._loading: asyncio.Future[Callable[[str], int] | None] | None = None
        self._ratio = 1.0  # tokens of this model / tokens of the estimate

    async def n_ctx(self) -> int | None:
        return (await self._ready()).n_ctx

    def estimate(self, text: str) -> int:
        return math.ceil(self._raw(text) * self._ratio)

    def learn(self, estimated: int, tokens: int) -> None:
        """Half way to what was right, so that one odd text does not spoil it."""
        if estimated > 0:
            self._ratio = min(MOST_RATIO, max(LEAST_RATIO, self._ratio * (1 + tokens / estimated) / 2))

    async def prepare(self) -> None:
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(self._loaded))
        self._count = await asyncio.shield(self._loading)

    async def exact(self, request: ModelRequest) -> int | None:
        return await self._ask(request)

    def _loaded(self) -> Callable[[str], int] | None:
        try:
            return self._load()
        except (ImportError, OSError, ValueError):
            return None

    def _raw(self, text: str) -> float:
        if self._count is None:
            return len(text) / CHARS_PER_TOKEN
        if len(text) <= SAMPLE:
            return self._count(text)
        middle = (len(text) - SAMPLE) // 2
        piece = text[: SAMPLE // 4] + text[middle : middle + SAMPLE // 2] + text[-SAMPLE // 4 :]
        return self._count(piece) * len(text) / len(piece)
