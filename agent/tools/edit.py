"""The edit tool: exact text for exact text, in what is on disk now; every byte outside the place stays."""

from __future__ import annotations

import difflib

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.diff import unified
from agent.tools.limits import short_line
from agent.tools.seen import Seen, current, unchanged
from agent.workspace.files import stamp_of, write_file
from agent.workspace.paths import Workspace


class EditParams(Params):
    file: str
    find: str
    replace: str
    replace_all: bool = False


class Edit:
    name = "edit"
    params = EditParams

    def __init__(self, workspace: Workspace, seen: Seen) -> None:
        self.description = description_of("edit")
        self._workspace = workspace
        self._seen = seen

    def plan(self, params: EditParams) -> Plan:
        path = self._workspace.locate(params.file)
        name = self._workspace.shown(path)
        there = current(path, name)
        if there is None:
            gone = "was deleted since you saw it" if self._seen.was_seen(path) else "does not exist"
            raise ToolFailure(f"{name} {gone}. Use write to make a new file.")
        if there.text is None:
            raise ToolFailure(f"{name} is not text and is not edited.")
        if self._seen.state(path, there) == "never":
            raise ToolFailure(f"You have not read {name}. Read it first, then edit it.")
        new = replaced(there.text, params, name)
        preview = unified(name, there.text, new)
        return Plan("edit", name, (str(path),), None, preview, there.stamp, self._workspace.outside(path))

    async def run(self, params: EditParams, ctx: ToolContext) -> ToolOutput:
        path = self._workspace.locate(params.file)
        name = self._workspace.shown(path)
        there = unchanged(path, name, ctx.plan.stamp)
        if there is None or there.text is None:
            raise ToolFailure(f"{name} is no longer there.")
        data = replaced(there.text, params, name).encode("utf-8", "replace")
        write_file(path, data, name)
        self._seen.note(path, stamp_of(data))
        return ToolOutput(f"Edited {name}.")


def replaced(text: str, params: EditParams, name: str) -> str:
    """Raises ToolFailure unless the place is certain."""
    find, replace = params.find, params.replace
    if not find:
        raise ToolFailure("find is empty. Give the exact text to replace, or use write for a new file.")
    if find == replace:
        raise ToolFailure("find and replace are the same: there is nothing to change.")
    if find not in text and "\r\n" in text:  # the model reads lines without their carriage returns
        find, replace = find.replace("\n", "\r\n"), replace.replace("\n", "\r\n")
    found = text.count(find)
    if not found:
        raise ToolFailure(
            f"The text to find was not found in {name}; nothing was changed. {_nearest(text, params.find)}"
        )
    if found > 1 and not params.replace_all:
        lines = _line_numbers(text, find)
        raise ToolFailure(
            f"The text to find occurs {found} times in {name}, on lines {lines}. "
            "Add lines around it, or set replace_all."
        )
    return text.replace(find, replace)


def _line_numbers(text: str, find: str) -> str:
    numbers: list[int] = []
    at = text.find(find)
    while at >= 0 and len(numbers) < 10:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(find, at + len(find))
    return ", ".join(map(str, numbers))


def _nearest(text: str, find: str) -> str:
    wanted = next((line for line in find.split("\n") if line.strip()), find)
    lines = text.split("\n")[:5000]
    close = difflib.get_close_matches(wanted, lines, n=1, cutoff=0.5)
    if not close:
        return "Read the file again and copy the text exactly."
    return f"The nearest line is {lines.index(close[0]) + 1}: {short_line(close[0].rstrip())!r}. Copy it exactly."
