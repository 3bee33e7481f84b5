"""The built-in tools, and their list as the server gets it: the same bytes every time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.protocols import Tool
from agent.tools.ask import Ask
from agent.tools.bash import Bash
from agent.tools.edit import Edit
from agent.tools.jobs import ProcessBook
from agent.tools.process import Process
from agent.tools.read import Read, nothing
from agent.tools.search import Glob, Grep, List
from agent.tools.seen import Seen
from agent.tools.todo import Todo
from agent.tools.write import Write
from agent.workspace.paths import Workspace


def _shown(_path: str) -> bool:
    return False


def build_tools(
    workspace: Workspace,
    env: Mapping[str, str],
    logs: Path,
    book: ProcessBook,
    *more: Tool,
    beside: Callable[[Path], str] = nothing,
    hides: Callable[[str], bool] = _shown,
    **bash: Any,
) -> tuple[Tool, ...]:
    """In the order of their names; `more` are those that need other parts of the house. `beside` as for Read. `hides`:
    of which files (absolute paths) nothing may be shown. `bash`: what that tool alone is given."""
    seen = Seen()
    own = (
        Ask(),
        Bash(workspace, env, logs, book, **bash),
        Edit(workspace, seen, hides),
        Glob(workspace),
        Grep(workspace, hides),
        List(workspace),
        Process(book),
        Read(workspace, seen, beside),
        Todo(),
        Write(workspace, seen),
    )
    return tuple(sorted((*own, *more), key=lambda tool: tool.name))


def tool_schemas(tools: Sequence[Tool], more: Sequence[Mapping[str, Any]] = ()) -> str:
    """Canonical JSON of OpenAI's tool list: compact, keys sorted, only what helps a model to call it right. `more`:
    entries of tools that are not ours, as they are."""
    entries: list[Mapping[str, Any]] = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": _schema(tool.params.model_json_schema()),
            },
        }
        for tool in tools
    ]
    entries += more
    return json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _schema(full: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = full.get("properties", {})
    return {
        "type": "object",
        "properties": {name: {"type": field["type"]} for name, field in properties.items()},
        "required": list(full.get("required", [])),
    }
