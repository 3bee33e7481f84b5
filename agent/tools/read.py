"""The read tool: a window of lines of a text file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.limits import plain, short_line
from agent.tools.seen import Place, Seen
from agent.workspace.files import check_plain, entries, kind_of
from agent.workspace.paths import Workspace

BYTES = 24_000  # of one result
ENTRIES = 100  # of a folder


class ReadParams(Params):
    file: str
    limit: int = 400
    offset: int = 1


def nothing(_file: Path) -> str:
    return ""


class Read:
    """`beside`: what the model should know of the place of a file, given with its text; mostly empty."""

    name = "read"
    params = ReadParams

    def __init__(self, workspace: Workspace, seen: Seen, beside: Callable[[Path], str] = nothing) -> None:
        self.description = description_of("read")
        self._beside = beside
        self._workspace = workspace
        self._seen = seen

    def plan(self, params: ReadParams) -> Plan:
        place = Place.of(self._workspace, params.file)
        free = self._workspace.readable(place.path)
        if free:  # what lies outside is not even looked at before the user allows it
            check_plain(place.path, place.name, folder=True)
        return Plan("read", place.name, (str(place.path),), outside=not free, accesses=(place.access("read"),))

    async def run(self, params: ReadParams, ctx: ToolContext) -> ToolOutput:
        place = Place.of(self._workspace, params.file)
        name = place.name
        if ctx.plan.paths != (str(place.path),):
            raise ToolFailure(f"{name} leads elsewhere than a moment ago. Nothing was read.")
        if place.path.is_dir():
            names, count = entries(place.path, name, ENTRIES)
            more = f" (the first {ENTRIES} of {count})" if count > ENTRIES else ""
            raise ToolFailure(f"{name} is a folder. It holds{more}: {', '.join(names) or 'nothing'}")
        content = place.content()
        if content is None:
            self._seen.gone(place)
            raise ToolFailure(f"There is no file {name}.")
        self._seen.note(place, content)
        if not content.data:
            return ToolOutput(f"{name} is empty.")
        if content.text is None:
            raise ToolFailure(f"{name} is {kind_of(content.data)} ({len(content.data)} bytes), not text to be read.")
        window = _window(content.lines, name, max(1, params.offset), max(1, params.limit))
        beside = self._beside(place.path)
        return ToolOutput(f"{window}\n\n{beside}", window) if beside else ToolOutput(window)


def _window(lines: list[str], name: str, start: int, limit: int) -> str:
    if start > len(lines):
        raise ToolFailure(f"{name} has only {len(lines)} lines.")
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[start - 1 : start - 1 + limit], start):
        row = f"{number:>5}\t{plain(short_line(line))}"
        size += len(row.encode("utf-8"))
        if shown and size > BYTES:
            break
        shown.append(row)
    last = start + len(shown) - 1
    if last < len(lines):
        shown.append(f"[lines {start} to {last} of {len(lines)}; go on with offset={last + 1}]")
    return "\n".join(shown)
