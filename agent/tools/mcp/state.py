"""A server as commands and the user see it."""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path

from agent.mcp_servers import McpState, McpTool
from agent.tools.mcp.adapter import claims_of
from agent.tools.mcp.catalogue import Catalogue, ServerTool, block_entry, tokens_of
from agent.tools.mcp.server import McpServer


def state_of(server: McpServer, named: Callable[[ServerTool], str], listed: Container[str], logs: Path) -> McpState:
    """`named`: what a tool is called; `listed`: names that stand in the tool list."""
    entry, condition, catalogue = server.entry, server.condition, server.catalogue or Catalogue()
    tools = tuple(
        McpTool(
            t.name,
            (name := named(t)),
            t.summary,
            tokens_of(block_entry(name, t)),
            name in listed,
            tuple(claims_of(t.hints)),
        )
        for t in catalogue.tools
    )
    return McpState(
        name=entry.name,
        scope=entry.scope,
        target=entry.target,
        kind=condition.kind,
        phase=condition.phase,
        why=condition.why,
        status=condition.status,
        seconds=condition.seconds,
        words=tuple(server.birth.words) or condition.words,
        again=condition.again,
        era=catalogue.era,
        title=catalogue.title,
        tools=tools,
        log=str(logs / f"mcp-{entry.name}.log") if entry.transport == "stdio" else "",
    )
