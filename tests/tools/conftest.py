"""Real tools in a real folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Tool, ToolContext
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools
from agent.workspace.paths import Workspace


class Bench:
    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        self.root.mkdir()
        self.logs = base / "logs"
        self.book = ProcessBook()
        self.progress: list[str] = []
        self.hides: Callable[[str], bool] = lambda path: False
        self.forget()

    def forget(self) -> None:
        tools = build_tools(
            Workspace(self.root), dict(os.environ), self.logs, self.book, hides=lambda path: self.hides(path)
        )
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools}

    async def call(self, tool: str, between: Callable[[], Any] | None = None, **arguments: Any) -> ToolOutput:
        """As the dispatch does it; a ToolFailure becomes the text the model reads."""
        params = self.tools[tool].params.model_validate(arguments)
        try:
            plan = self.tools[tool].plan(params)
            if between:
                between()
            return await self.tools[tool].run(params, ToolContext("call", plan, self.progress.append))
        except ToolFailure as failure:
            return ToolOutput(str(failure), failed=True)

    async def bash(self, command: str, timeout: float = 20) -> ToolOutput:
        return await self.call("bash", command=command, timeout=timeout)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path.resolve())
    yield made
    assert await made.book.stop_all() == ()
