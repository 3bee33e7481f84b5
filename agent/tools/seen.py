"""What the model last saw of each file, so that nobody's lines are overwritten unread; and the place a call means,
which must not move between the plan that was approved and the deed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolFailure
from agent.protocols import Plan
from agent.workspace.files import Content, read_file, stamp_of, write_file
from agent.workspace.paths import Workspace

GONE = "gone"  # instead of a hash: it was seen once, and the model has been told that it is no longer there


@dataclass(frozen=True, slots=True)
class Place:
    """`path` is absolute with all links followed, `name` what model and user read."""

    path: Path
    name: str
    outside: bool

    @classmethod
    def of(cls, workspace: Workspace, file: str) -> Place:
        path = workspace.locate(file)
        return cls(workspace.real(path), workspace.shown(path), workspace.outside(path))

    def content(self) -> Content | None:
        """What is there now; None where nothing is. Raises ToolFailure."""
        try:
            return read_file(self.path, self.name)
        except FileNotFoundError:
            return None

    def edit_plan(self, preview: str, there: Content | None) -> Plan:
        stamp = there.stamp if there else None
        return Plan("edit", self.name, (str(self.path),), None, preview, stamp, self.outside)

    def as_planned(self, plan: Plan) -> Content | None:
        """Raises ToolFailure when the file, or where the name leads, is no longer what the plan saw."""
        now = self.content()
        if (now.stamp if now else None) != plan.stamp or plan.paths != (str(self.path),):
            raise ToolFailure(f"{self.name} changed while this was being decided. Nothing was written; read it again.")
        return now


class Seen:
    """Remembers a hash per file. A resumed session starts with nothing seen."""

    def __init__(self) -> None:
        self._stamps: dict[Path, str] = {}

    def note(self, place: Place, content: Content) -> None:
        self._stamps[place.path] = content.stamp

    def knew(self, place: Place) -> bool:
        return place.path in self._stamps

    def gone(self, place: Place) -> bool:
        """Of a file that is not there: does the model still believe in it? True once, as it is told then."""
        believed = self._stamps.get(place.path, GONE) != GONE
        if believed:
            self._stamps[place.path] = GONE
        return believed

    def check(self, place: Place, there: Content) -> None:
        """Raises ToolFailure unless the model knows what it would overwrite."""
        stamp = self._stamps.get(place.path)
        if stamp in (None, GONE):
            raise ToolFailure(f"{place.name} exists and you have not read it. Read it first, then write or edit it.")
        if stamp != there.stamp:
            raise ToolFailure(f"{place.name} changed since you read it. Read it again, then decide.")

    def save(self, place: Place, data: bytes, before: Content | None) -> None:
        """Writes. What others changed in the rest of the file counts as unseen until the model reads it."""
        write_file(place.path, data, place.name)
        if before is None or not before.data or self._stamps.get(place.path) == before.stamp:
            self._stamps[place.path] = stamp_of(data)
