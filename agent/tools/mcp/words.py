"""What the model reads of servers and their tools outside of the tool list. Bounded texts; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agent.tools.mcp.catalogue import Catalogue, ServerTool, described

SHOWN = 8  # tools that a search gives with their parameters
FOUND = 12_000  # characters of one search
ANNOUNCED = 1_500  # characters of one announcement
INSTRUCTIONS = 600  # characters of a server's own words in it
_WORDS = re.compile(r"[a-z0-9]+")
NAMES = 700  # characters of tool names in the description of mcp_find


def servers_text(servers: Sequence[tuple[str, Catalogue | None, bool]]) -> str:
    """(name, what is known of it, its tools stand in the list) for the description of mcp_find."""
    parts: list[str] = []
    room = NAMES
    for name, catalogue, listed in servers:
        names = ", ".join(t.name for t in catalogue.tools) if catalogue and not listed else ""
        room -= len(names)
        parts.append(f"{name} ({names})" if names and room >= 0 else name)
    return "; ".join(parts) + "."


def fitness(query: str, name: str, description: str) -> int:
    """How well a tool fits the words of a query; 0: not at all. A word of its name counts most."""
    parts, about = set(_WORDS.findall(name.lower())), description.lower()
    words = set(_WORDS.findall(query.lower())) - {"mcp"}
    return sum(6 * (w in parts) + 2 * (w in name.lower()) + (w in about) for w in words)


def found_text(name: str, tool: ServerTool) -> str:
    schema = json.dumps(tool.schema, separators=(",", ":"), ensure_ascii=False)
    return f"{name}: {described(tool)}\nparameters: {schema}"


def found_list(tools: Sequence[tuple[str, ServerTool]]) -> str:
    """Best first."""
    text, shown = "", 0
    for name, tool in tools[:SHOWN]:
        piece = found_text(name, tool)
        if text and len(text) + len(piece) > FOUND:
            break
        text, shown = f"{text}\n\n{piece}" if text else piece[:FOUND], shown + 1
    if rest := [name for name, _ in tools[shown:]]:
        more = ", ".join(rest[:40])
        text += f"\n\nAlso: {more}{' …' if len(rest) > 40 else ''}"
    return f"{text}\n\nCall one with mcp_call."


def announced(server: str, tools: Sequence[tuple[str, ServerTool]], instructions: str, *, again: bool = False) -> str:
    head = f"MCP server {server} {'has new tools' if again else 'is ready'}; call its tools with mcp_call:"
    lines: list[str] = []
    size = 0
    for name, tool in tools:
        line = f"{name}: {tool.summary}"
        size += len(line)
        if size > ANNOUNCED:
            lines.append(f"and {len(tools) - len(lines)} more; mcp_find finds them")
            break
        lines.append(line)
    said = " ".join(instructions.split())[:INSTRUCTIONS]
    return "\n".join([head, *lines, *([f"The server says: {said}"] if said else [])])


def removed_text(names: Sequence[str]) -> str:
    return f"MCP tools that are gone: {', '.join(names)}"
