"""The read tool: a window of lines of a text file."""

from __future__ import annotations

from pydantic import Field

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.limits import plain, short_line
from agent.tools.seen import Seen
from agent.workspace.files import read_file
from agent.workspace.paths import Workspace

BYTES = 24_000  # of one result
ENTRIES = 100  # of a folder


class ReadParams(Params):
    file: str
    limit: int = Field(default=400, ge=1)
    offset: int = Field(default=1)


class Read:
    name = "read"
    params = ReadParams

    def __init__(self, workspace: Workspace, seen: Seen) -> None:
        self.description = description_of("read")
        self._workspace = workspace
        self._seen = seen

    def plan(self, params: ReadParams) -> Plan:
        path = self._workspace.locate(params.file)
        try:
            path.resolve(strict=True)
        except FileNotFoundError:
            pass  # said by run, in its place
        except (OSError, RuntimeError) as error:
            raise ToolFailure(f"{params.file} cannot be read: its links lead in a circle, or nowhere.") from error
        return Plan("read", self._workspace.shown(path), (str(path),), outside=self._workspace.outside(path))

    async def run(self, params: ReadParams, ctx: ToolContext) -> ToolOutput:
        path = self._workspace.locate(params.file)
        name = self._workspace.shown(path)
        if path.is_dir():
            names = sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir())
            more = f" (the first {ENTRIES} of {len(names)})" if len(names) > ENTRIES else ""
            raise ToolFailure(f"{name} is a folder. It holds{more}: {', '.join(names[:ENTRIES]) or 'nothing'}")
        try:
            content = read_file(path, name)
        except FileNotFoundError:
            raise ToolFailure(f"There is no file {name}.") from None
        self._seen.note(path, content.stamp)
        if not content.data:
            return ToolOutput(f"{name} is empty.")
        if content.text is None:
            return ToolOutput(f"{name} is not text ({len(content.data)} bytes).", failed=True)
        lines = content.text.removeprefix("\ufeff").split("\n")
        if lines[-1] == "":
            lines.pop()
        start = max(1, params.offset)
        if start > len(lines):
            raise ToolFailure(f"{name} has only {len(lines)} lines.")
        shown: list[str] = []
        size = 0
        for number, line in enumerate(lines[start - 1 : start - 1 + params.limit], start):
            row = f"{number:>5}\t{short_line(plain(line))}"
            size += len(row.encode("utf-8", "replace"))
            if shown and size > BYTES:
                break
            shown.append(row)
        last = start + len(shown) - 1
        if last < len(lines):
            shown.append(f"[lines {start} to {last} of {len(lines)}; go on with offset={last + 1}]")
        return ToolOutput("\n".join(shown))
