"""MCP tools as tools of the model: each by its own name, and the two that reach what is not in the tool list."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, Field, RootModel, field_validator

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params
from agent.tools.mcp.catalogue import ServerTool, described

TITLE = 80  # characters of the arguments in a title
Run = Callable[[str, str, Mapping[str, Any], Callable[[str], None]], Awaitable[ToolOutput]]


class Arguments(RootModel[dict[str, Any]]):
    """Whatever the model wrote: the server itself says what it does not take."""


class RemoteTool:
    """One tool of one server. `run` gets server, tool, arguments and where progress goes."""

    params: type[BaseModel] = Arguments

    def __init__(self, name: str, server: str, tool: ServerTool, run: Run) -> None:
        self.name = name
        self.description = described(tool)
        self._server = server
        self._tool = tool
        self._run = run

    def plan(self, params: Arguments) -> Plan:
        given = json.dumps(params.root, ensure_ascii=False)
        short = given if len(given) <= TITLE else f"{given[:TITLE]}…"
        title = f"{self._server}: {self._tool.name} {short if params.root else ''}".strip()
        claims = ", ".join(claims_of(self._tool.hints))
        preview = json.dumps(params.root, ensure_ascii=False, indent=1) if len(given) > TITLE else ""
        about = f"The server calls it {claims}.\n" if claims else ""
        return Plan("other", title, preview=f"{about}{preview}".strip("\n"), tool=self.name)

    async def run(self, params: Arguments, ctx: ToolContext) -> ToolOutput:
        return await self._run(self._server, self._tool.name, params.root, ctx.progress)


def claims_of(hints: Mapping[str, Any]) -> list[str]:
    """A server's annotations in words. They are its claims: shown, and nothing is decided by them."""
    claims = ["read-only"] if hints.get("readOnlyHint") is True else []
    if hints.get("destructiveHint") is True and not claims:
        claims.append("destructive")
    return claims


class CallParams(Params):
    arguments: dict[str, Any] = Field(default_factory=dict)
    tool: str

    @field_validator("arguments", mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        """Some models write the object as a text."""
        if isinstance(value, str):
            try:
                return json.loads(value) if value.strip() else {}
            except ValueError as error:
                raise ValueError("must be a JSON object with the tool's parameters") from error
        return value


class McpCall:
    """`find` gives the tool of a name, or raises ToolFailure."""

    name = "mcp_call"
    description = (
        "Calls a tool of an MCP server that is not in this list, by its name mcp__server__tool. "
        "Its parameters are what mcp_find or an announcement says."
    )
    params = CallParams

    def __init__(self, find: Callable[[str], RemoteTool]) -> None:
        self._find = find

    def plan(self, params: CallParams) -> Plan:
        return self._find(params.tool).plan(Arguments(params.arguments))

    async def run(self, params: CallParams, ctx: ToolContext) -> ToolOutput:
        return await self._find(params.tool).run(Arguments(params.arguments), ctx)


class FindParams(Params):
    query: str


class McpFind:
    """`search` waits, within bounds, for servers that are still starting."""

    name = "mcp_find"
    params = FindParams

    def __init__(self, servers: str, search: Callable[[str], Awaitable[str]]) -> None:
        self.description = f"Finds tools of MCP servers by words, with their parameters. Servers: {servers}"
        self._search = search

    def plan(self, params: FindParams) -> Plan:
        if not params.query.strip():
            raise ToolFailure("The query is empty; give a few words, or the name of a server.")
        return Plan("search", f"MCP tools for {params.query!r}")

    async def run(self, params: FindParams, ctx: ToolContext) -> ToolOutput:
        return ToolOutput(await self._search(params.query))
