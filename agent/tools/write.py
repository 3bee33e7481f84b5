"""The write tool: a whole file, never over something the model has not read as it is now."""

from __future__ import annotations

import codecs

from pydantic import ConfigDict

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.diff import unified
from agent.tools.seen import Place, Seen
from agent.workspace.files import Content
from agent.workspace.paths import Workspace


class WriteParams(Params):
    model_config = ConfigDict(extra="forbid")  # `append` or `line` would mean another file than the one written

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
        place = Place.of(self._workspace, params.file)
        there = place.content()
        if there is None and self._seen.gone(place):
            raise ToolFailure(
                f"{place.name} was deleted since you saw it. Nothing was written. Write it again if it should exist."
            )
        if there is not None and there.data:
            self._seen.check(place, there)
        old = there.data if there else b""
        return place.edit_plan(unified(place.name, old, _as_there(params.text, there)), there)

    async def run(self, params: WriteParams, ctx: ToolContext) -> ToolOutput:
        place = Place.of(self._workspace, params.file)
        there = place.as_planned(ctx.plan)
        data = _as_there(params.text, there)
        self._seen.save(place, data, there)
        lines = params.text.count("\n") + (not params.text.endswith("\n") and bool(params.text))
        return ToolOutput(f"{'Wrote' if there else 'Created'} {place.name}: {lines} lines, {len(data)} bytes.")


def _as_there(text: str, there: Content | None) -> bytes:
    """The model reads without byte order mark and carriage returns, so it writes without them; the file keeps both."""
    data = text.encode("utf-8")
    if there is None:
        return data
    if there.crlf and b"\r" not in data:
        data = data.replace(b"\n", b"\r\n")
    if there.data.startswith(codecs.BOM_UTF8) and not data.startswith(codecs.BOM_UTF8):
        data = codecs.BOM_UTF8 + data
    return data
