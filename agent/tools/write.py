"""The write tool: a whole file, never over something the model has not read as it is now."""

from __future__ import annotations

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
        return place.edit_plan(unified(place.name, old, _as_there(params.text, there, place.name)), there)

    async def run(self, params: WriteParams, ctx: ToolContext) -> ToolOutput:
        place = Place.of(self._workspace, params.file)
        there = place.as_planned(ctx.plan)
        data = _as_there(params.text, there, place.name)
        display = self._seen.save(place, data, there, ctx.turn)
        lines = params.text.count("\n") + (not params.text.endswith("\n") and bool(params.text))
        size = f"{lines} line{'' if lines == 1 else 's'}, {len(data)} bytes"
        return ToolOutput(f"{'Wrote' if there else 'Created'} {place.name}: {size}.", display)


def _as_there(text: str, there: Content | None, name: str) -> bytes:
    """The model reads without byte order mark and carriage returns, so it writes without them; the file keeps both, and
    its encoding. Raises ToolFailure for signs that this has not."""
    was = there.text if there else None
    if was is None or not there or not there.data:
        return text.encode("utf-8")
    if was.newline == "\r\n" and "\r" not in text:
        text = text.replace("\n", "\r\n")
    try:
        return was.bom + was.encode(text.removeprefix("\ufeff"))
    except UnicodeEncodeError as error:
        sign = error.object[error.start]
        raise ToolFailure(
            f"{name} is written in {was.encoding}, which has no {sign!r} (U+{ord(sign):04X}). Nothing was written."
        ) from error
