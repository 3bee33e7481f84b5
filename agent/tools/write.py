"""The write tool: a whole file, never over something the model has not read as it is now."""

from __future__ import annotations

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.diff import unified
from agent.tools.seen import Seen, current, unchanged
from agent.workspace.files import stamp_of, write_file
from agent.workspace.paths import Workspace


class WriteParams(Params):
    file: str
    text: str


class Write:
    name = "write"
    params = WriteParams

    def __init__(self, workspace: Workspace, seen: Seen) -> None:
        self.description = description_of("write")
        self._workspace = workspace
        self._seen = seen

    def plan(self, params: WriteParams) -> Plan:
        path = self._workspace.locate(params.file)
        name = self._workspace.shown(path)
        there = current(path, name)
        if there is None and self._seen.was_seen(path):
            raise ToolFailure(f"{name} was deleted since you saw it. Ask the user, or use another name.")
        if there is not None and there.data:
            state = self._seen.state(path, there)
            if state == "never":
                raise ToolFailure(f"{name} exists and you have not read it. Read it first, then write or edit it.")
            if state == "changed":
                raise ToolFailure(f"{name} changed since you read it. Read it again, then decide.")
        old = there.text or "" if there else ""
        stamp = there.stamp if there else None
        preview = unified(name, old, params.text)
        return Plan("edit", name, (str(path),), None, preview, stamp, self._workspace.outside(path))

    async def run(self, params: WriteParams, ctx: ToolContext) -> ToolOutput:
        path = self._workspace.locate(params.file)
        name = self._workspace.shown(path)
        there = unchanged(path, name, ctx.plan.stamp)
        data = params.text.encode("utf-8", "replace")
        write_file(path, data, name)
        self._seen.note(path, stamp_of(data))
        lines = params.text.count("\n") + (not params.text.endswith("\n") and bool(params.text))
        return ToolOutput(f"{'Wrote' if there else 'Created'} {name}: {lines} lines, {len(data)} bytes.")
