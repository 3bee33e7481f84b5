"""The todo tool: a list that the user sees while the model works through it. Keeps nothing: the list is in the call."""

from __future__ import annotations

import re
from typing import Any

from pydantic import field_validator

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of, lines_of
from agent.tools.limits import plain

ITEMS = 50
_ITEM = re.compile(r"\s*(?:[-*]|\d+[.)])?\s*(?:\[(.?)\])?\s*(.*?)\s*\Z")
_MARKS = {"x": "x", "X": "x", "✓": "x", ">": ">", "~": ">", "-": ">", "•": ">"}


class TodoParams(Params):
    items: str

    @field_validator("items", mode="before")
    @classmethod
    def _as_lines(cls, value: Any) -> Any:
        return lines_of(value)


class Todo:
    name = "todo"
    params = TodoParams

    def __init__(self) -> None:
        self.description = description_of("todo")

    def plan(self, params: TodoParams) -> Plan:
        items = _items(params.items)
        if not items:
            raise ToolFailure("The list is empty. Give one item a line: [x] done, [>] under way, [ ] to do.")
        done = sum(item.startswith("[x]") for item in items)
        return Plan("think", f"{done} of {len(items)} done", preview="\n".join(items))

    async def run(self, params: TodoParams, ctx: ToolContext) -> ToolOutput:
        return ToolOutput(f"{ctx.plan.title}.")


def _items(text: str) -> list[str]:
    found: list[str] = []
    for line in text.split("\n"):
        match = _ITEM.match(plain(line))
        if match and match[2]:
            found.append(f"[{_MARKS.get(match[1] or '', ' ')}] {match[2][:200]}")
    return found[:ITEMS]
