"""What the library's objects hold, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types

from agent.config.foreign import mapping
from agent.tools.mcp.catalogue import ServerTool


def plain(model: Any) -> Mapping[str, Any]:
    """In the protocol's own JSON."""
    return mapping(model.model_dump(by_alias=True, mode="json", exclude_none=True))


def tool_of(tool: types.Tool) -> ServerTool:
    hints = plain(tool.annotations) if tool.annotations else mapping(None)
    return ServerTool(tool.name, tool.description or tool.title or "", tool.input_schema, hints)


def progress_of(done: float, total: float | None, message: str | None) -> str:
    share = f"{done:g}/{total:g}" if total else f"{done:g}"
    return f"{share} {message}".strip() if message else share


def text_of(content: Any) -> str:
    """Of a message's content; what is no text is named."""
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)  # pyright: ignore[reportUnknownVariableType]
    given = mapping(content)
    return str(given.get("text") or f"[{given.get('type', 'content')}]")
