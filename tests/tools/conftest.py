"""Real tools in a real folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Tool, ToolContext
from agent.tools.jobs import ProcessBook
from agent.tools.registry import build_tools
from agent.workspace.paths import Workspace


class Bench:
    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        self.root.mkdir()
        self.logs = base / "logs"
        self.book = ProcessBook()
        self.progress: list[str] = []
        self.tails: list[str] = []
        self.hides: Callable[[str], bool] = lambda path: False
        self.forget()

    def forget(self, **bash: Any) -> None:
        workspace, env = Workspace(self.root), dict(os.environ)
        tools = build_tools(workspace, env, self.logs, self.book, hides=lambda path: self.hides(path), **bash)
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools}

    async def call(self, tool: str, between: Callable[[], Any] | None = None, **arguments: Any) -> ToolOutput:
        """As the dispatch does it; a ToolFailure becomes the text the model reads."""
        params = self.tools[tool].params.model_validate(arguments)
        try:
            plan = self.tools[tool].plan(params)
            if between:
                between()
            context = ToolContext("call", plan, self.progress.append, self.tails.append)
            return await self.tools[tool].run(params, context)
        except ToolFailure as failure:
            return ToolOutput(str(failure), failed=True)

    async def bash(self, command: str, timeout: float = 20) -> ToolOutput:
        return await self.call("bash", command=command, timeout=timeout)

    async def text(self, command: str, timeout: float = 20) -> str:
        return (await self.bash(command, timeout)).text

    async def process(self, action: str, id: str = "", **arguments: Any) -> str:
        return (await self.call("process", action=action, id=id, **arguments)).text


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path.resolve())
    yield made
    assert await made.book.stop_all() == ()


async def until(condition: Callable[[], object], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def with_command_line(text: str) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and alive(int(entry.name)):
            with contextlib.suppress(OSError):
                if text in (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"):
                    found.append(int(entry.name))
    return found
