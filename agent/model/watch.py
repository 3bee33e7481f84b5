"""Notices that a server has lost a request: nothing comes, and the server itself says that it works on nothing. Costs
nothing while bytes flow. Knows no protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

LOOK_AFTER = 10.0  # seconds of silence; a server that only computes says so when it is asked
LOOKS = 2  # in a row that must find it idle: between two of its tasks it is idle for a moment

T = TypeVar("T")


class Lost(Exception):
    """The server works on nothing, and never will."""


class Watch:
    """`idle` asks the server; it is True only where it says so itself. Everything that comes from the server is awaited
    through `wait`, by the task that entered."""

    def __init__(self, idle: Callable[[], Awaitable[bool]], look_after: float = LOOK_AFTER) -> None:
        self._idle = idle
        self._look_after = look_after
        self._heard = 0.0
        self._waiting: asyncio.Task[object] | None = None
        self._lost = False
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watch:
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        self._watcher = loop.create_task(self._watch(), name="stall-watch")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watcher is not None:
            self._watcher.cancel()

    async def wait(self, what: Awaitable[T]) -> T:
        """Raises Lost."""
        task = self._waiting = asyncio.current_task()
        try:
            return await what
        except asyncio.CancelledError:
            if self._lost and task is not None and task.uncancel() == 0:
                raise Lost from None
            raise
        finally:
            self._waiting = None
            self._heard = asyncio.get_running_loop().time()

    async def _watch(self) -> None:
        loop, found = asyncio.get_running_loop(), 0
        while True:
            heard = self._heard
            silence = loop.time() - heard
            await asyncio.sleep(max(self._look_after - silence, self._look_after / 2 if found else 0.0))
            if self._heard != heard:
                found = 0
                continue
            idle = await self._idle()
            waiting = self._waiting
            if not idle or self._heard != heard or waiting is None:
                found = 0
                await asyncio.sleep(self._look_after / 2)
                continue
            found += 1
            if found >= LOOKS:
                self._lost = True
                waiting.cancel()
                return
