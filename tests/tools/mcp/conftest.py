"""Pools of real connections, and what the conversation learns of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.config.mcp import Configured, Entry, Launch, entry_of
from agent.config.trust import Trust
from agent.tools.mcp.catalogue import Memory
from agent.tools.mcp.host import Connect, Elicitation, Elicited, Host, Sampled, Sampling
from agent.tools.mcp.link import connect
from agent.tools.mcp.login import auth_of
from agent.tools.mcp.mending import Refusals
from agent.tools.mcp.pool import Pool
from agent.tools.mcp.results import Results

MakePool = Callable[..., Pool]


class Told:
    """What the user was told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, level: str, text: str) -> None:
        self.texts.append(text)


async def until(true: Callable[[], Any], within: float = 20.0) -> Any:
    async with asyncio.timeout(within):
        while not (value := true()):
            await asyncio.sleep(0.02)
    return value


def kind(pool: Pool, name: str) -> str:
    return next(s.kind for s in pool.states() if s.name == name)


async def anything(_tools: str) -> bool:
    return True


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def pools(tmp_path: Path, told: Told) -> AsyncIterator[MakePool]:
    """Makes a pool of raw entries. They count as the user's own unless `scope` says otherwise."""
    made: list[Pool] = []

    def make(
        entries: Mapping[str, Any],
        *,
        scope: Any = "user",
        context: int = 32_768,
        share: float = 0.02,
        elicit: Callable[[Elicitation], Awaitable[Elicited]] | None = None,
        sample: Callable[[Sampling], Awaitable[Sampled]] | None = None,
        trust: Trust | None = None,
        start: bool = True,
        accepts: Callable[[str], Awaitable[bool]] = anything,
    ) -> Pool:
        read = tuple(entry_of(name, raw, scope, tmp_path / ".mcp.json") for name, raw in entries.items())
        host = Host((tmp_path,), dict(os.environ), tmp_path / "logs", "0", elicit, sample)

        async def ready() -> Connect:
            return connect

        async def auth(entry: Entry, launch: Launch, lead: Callable[[str], None] | None) -> Any:
            return await auth_of(entry, launch, tmp_path / "tokens", lead)

        pool = Pool(
            Configured(read, share=share),
            host,
            connect=ready,
            memory=Memory(tmp_path / "memory"),
            trust=trust or Trust(tmp_path / "trust.json"),
            results=Results(tmp_path / "results"),
            context=context,
            notice=told,
            auth=auth,
            refusals=Refusals(tmp_path / "refused.json", "engine"),
            accepts=accepts,
        )
        made.append(pool)
        pool.open_conversation()
        if start:
            pool.start()
        return pool

    yield make
    await asyncio.gather(*(pool.close() for pool in made))


async def call(pool: Pool, name: str, arguments: dict[str, Any] | None = None) -> Any:
    """What dispatch does, without permission."""
    from agent.protocols import ToolContext

    tool = pool.tool(name)
    assert tool is not None, f"no tool {name}"
    params = tool.params.model_validate(arguments or {})
    return await tool.run(params, ToolContext("c1", tool.plan(params), lambda _text: None))
