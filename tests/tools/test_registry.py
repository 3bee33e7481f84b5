from __future__ import annotations

import json
from pathlib import Path

from agent.model.encoding import o200k
from agent.prompt.system import build_system_prompt
from agent.tools.registry import tool_schemas
from tests.tools.conftest import Bench


def test_the_tool_list_has_the_same_bytes_each_time_and_stays_small(bench: Bench) -> None:
    first = tool_schemas(tuple(bench.tools.values()))
    bench.forget()
    assert tool_schemas(tuple(bench.tools.values())) == first
    assert [entry["function"]["name"] for entry in json.loads(first)] == [
        *("ask", "bash", "edit", "glob", "grep", "list", "process", "read", "todo", "write"),
    ]
    assert not any(word in first for word in ('"title"', '"$defs"', '"default"'))
    assert o200k()(build_system_prompt(Path("/home/user/project")) + first) <= 1500  # a long prompt is paid every time
