"""The edit tool: exact text for exact text, in what is on disk now; every byte outside the place stays."""

from __future__ import annotations

import difflib
import unicodedata

from pydantic import ConfigDict

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.diff import unified
from agent.tools.limits import short_line
from agent.tools.seen import Place, Seen
from agent.workspace.files import Content
from agent.workspace.paths import Workspace

COMPARED = 5000  # lines looked at for the nearest one; difflib needs some 0.1 ms for each
WIDTH = 300  # characters of a line that are compared


class EditParams(Params):
    model_config = ConfigDict(extra="forbid")  # `line` or `regex` would mean another change than the one made

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
        place = Place.of(self._workspace, params.file)
        there = place.content()
        if there is None:
            gone = "was deleted since you saw it" if self._seen.knew(place) else "does not exist"
            raise ToolFailure(f"{place.name} {gone}. Use write to make a new file.")
        if not there.is_text:
            raise ToolFailure(f"{place.name} is binary, not text, and cannot be edited.")
        return place.edit_plan(unified(place.name, there.data, replaced(there, params, place.name)), there)

    async def run(self, params: EditParams, ctx: ToolContext) -> ToolOutput:
        place = Place.of(self._workspace, params.file)
        there = place.as_planned(ctx.plan)
        if there is None:
            raise ToolFailure(f"{place.name} is no longer there.")
        self._seen.save(place, replaced(there, params, place.name), there)
        return ToolOutput(f"Edited {place.name}.")


def replaced(there: Content, params: EditParams, name: str) -> bytes:
    """Raises ToolFailure unless the place is certain."""
    data, find, replace = there.data, params.find.encode("utf-8"), params.replace.encode("utf-8")
    if not data:
        raise ToolFailure(f"{name} is empty: there is nothing to find. Use write to fill it.")
    if not find:
        raise ToolFailure("find is empty. Give the exact text to replace, or use write for a new file.")
    if find == replace:
        raise ToolFailure("find and replace are the same: there is nothing to change.")
    if there.crlf or find not in data:  # the model reads lines without their carriage returns
        with_returns = _crlf(find)
        if with_returns in data:
            replace = _crlf(replace) if there.crlf or with_returns != find else replace
            find = with_returns
    found = _places(data, find)
    if not found:
        raise ToolFailure(
            f"The text to find was not found in {name}; nothing was changed. {_nearest(there.lines, params.find)}"
        )
    if len(found) > 1 and not params.replace_all:
        lines = ", ".join(str(data.count(b"\n", 0, at) + 1) for at in found[:10])
        raise ToolFailure(
            f"The text to find occurs {len(found)} times in {name}, on lines {lines}"
            f"{' and more' if len(found) > 10 else ''}. Add lines around it, or set replace_all."
        )
    return data.replace(find, replace)


def _crlf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _places(data: bytes, find: bytes) -> list[int]:
    """Overlapping ones too: `aa` is in `aaa` at two places, and which one is meant is not certain."""
    found: list[int] = []
    at = data.find(find)
    while at >= 0:
        found.append(at)
        at = data.find(find, at + 1)
    return found


def _nearest(lines: list[str], find: str) -> str:
    """For the first line of `find` that the file has nowhere."""
    known = set(lines)
    wanted = [line for line in find.replace("\r\n", "\n").split("\n") if line.strip()] or [find]
    missing = next((line for line in wanted if line not in known), wanted[0])[:WIDTH]
    close = difflib.get_close_matches(missing, [line[:WIDTH] for line in lines[:COMPARED]], n=1, cutoff=0.5)
    if not close:
        return "Read the file again and copy the text exactly."
    number, line = next((n, line) for n, line in enumerate(lines, 1) if line[:WIDTH] == close[0])
    odd = sorted({c for c in line[:WIDTH] if ord(c) > 126 or c == "\t"} - set(missing))[:6]
    names = ", ".join(f"U+{ord(c):04X} {unicodedata.name(c, 'control').lower()}" for c in odd)
    signs = f" (with {names})" if odd else ""
    return f"The nearest line is {number}{signs}:\n{short_line(line)}\nCopy the text exactly."
