"""MCP servers as the user sees them: what is configured, how it fares, what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

McpKind: TypeAlias = Literal["unapproved", "off", "starting", "ready", "failed", "login"]


@dataclass(frozen=True, slots=True)
class McpTool:
    """`listed`: it stands in the tool list of the running conversation; otherwise it is reached by mcp_call. `hints`:
    what the server claims of it (readOnlyHint and the like). `tokens`: about what it takes, or would take, there."""

    name: str
    qualified: str
    summary: str
    tokens: int
    listed: bool
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class McpState:
    """One configured server. `scope`: flag, local, project, user. `target`: command line or URL without secrets.
    `phase`: what it is doing, or was doing when it failed. `why`: a sentence. `status`: of the process that ended, -N
    for signal N. `seconds`: how long it took to be ready, or to fail. `words`: its last lines on stderr, oldest first.
    `again`: seconds until it is tried again by itself, None when it is not. `log`: file with all of stderr."""

    name: str
    scope: str
    target: str
    kind: McpKind
    phase: str = ""
    why: str = ""
    status: int | None = None
    seconds: float = 0.0
    words: tuple[str, ...] = ()
    again: float | None = None
    era: str = ""
    title: str = ""
    tools: tuple[McpTool, ...] = ()
    log: str = ""

    @property
    def tokens(self) -> int:
        """About how many tokens its tools take in the tool list of this conversation."""
        return sum(t.tokens for t in self.tools if t.listed)


@dataclass(frozen=True, slots=True)
class McpArgument:
    """One thing that a prompt wants to know; always a text."""

    name: str
    about: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A message that a server has ready. `qualified`: the slash command it becomes."""

    server: str
    name: str
    qualified: str
    about: str = ""
    arguments: tuple[McpArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class McpTrial:
    """What to call when a server is tried out: one `tool` (with `arguments`, else generated ones), `every` tool, or
    those of which the server says that they only read."""

    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    every: bool = False


class McpServers(Protocol):
    """What commands do with MCP servers. An unknown name raises ConfigError."""

    def states(self) -> tuple[McpState, ...]: ...
    @property
    def reachable(self) -> bool:
        """Can the running conversation call tools of servers that came after it began?"""
        ...

    async def new(self, name: str) -> tuple[str, McpState]:
        """Writes a server into the project, registers and starts it; the file it is in, and its state."""
        ...

    async def restart(self, name: str) -> McpState:
        """Starts it anew, whatever its state, and returns how that went."""
        ...

    async def approve(self, name: str, *, allowed: bool) -> McpState: ...
    async def switch(self, name: str, *, on: bool) -> McpState:
        """For this run."""
        ...

    async def login(self, name: str, say: Callable[[str], None]) -> McpState: ...
