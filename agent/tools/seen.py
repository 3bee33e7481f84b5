"""What the model last saw of each file, so that nobody's lines are overwritten unread; and the place a call means,
which must not move between the plan that was approved and the deed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.errors import ToolFailure
from agent.protocols import Access, Plan
from agent.tools.diff import unified
from agent.workspace.files import Content, read_file, stamp_of, write_file
from agent.workspace.paths import Workspace

WHOLE, FILES = 400_000, 100  # bytes of a file, and files, that are remembered whole
CHANGES = 4_000  # characters of a diff that the model is shown of what others changed
GONE = "gone"  # instead of a hash: it was seen once, and the model has been told that it is no longer there


@dataclass(frozen=True, slots=True)
class Place:
    """`path` is absolute with all links followed, `named` without, `name` what model and user read."""

    path: Path
    name: str
    outside: bool
    named: Path
    readable: bool

    @classmethod
    def of(cls, workspace: Workspace, file: str) -> Place:
        path = workspace.locate(file)
        named = Path(os.path.normpath(path))
        real = workspace.real(path)
        return cls(real, workspace.shown(path), workspace.outside(path), named, workspace.readable(path))

    def access(self, act: Literal["read", "edit"]) -> Access:
        forms = (str(self.named),) if self.named != self.path else ()
        return Access(act, str(self.path), forms, outside=self.outside if act == "edit" else not self.readable)

    def content(self) -> Content | None:
        """What is there now; None where nothing is. Raises ToolFailure."""
        try:
            return read_file(self.path, self.name)
        except FileNotFoundError:
            return None

    def edit_plan(self, preview: str, there: Content | None, *accesses: Access) -> Plan:
        stamp = there.stamp if there else None
        used = (self.access("edit"), *accesses)
        return Plan("edit", self.name, (str(self.path),), None, preview, stamp, self.outside, used)

    def as_planned(self, plan: Plan) -> Content | None:
        """Raises ToolFailure when the file, or where the name leads, is no longer what the plan saw."""
        now = self.content()
        if (now.stamp if now else None) != plan.stamp or plan.paths != (str(self.path),):
            raise ToolFailure(f"{self.name} changed while this was being decided. Nothing was written; read it again.")
        return now


class Seen:
    """Remembers a hash per file, and small files whole. A resumed session starts with nothing seen."""

    def __init__(self) -> None:
        self._stamps: dict[Path, str] = {}
        self._known: dict[Path, bytes] = {}
        self._turn = 0
        self._before: dict[Path, bytes] = {}  # of files changed in this turn: what they were before it

    def note(self, place: Place, content: Content) -> None:
        self._remember(place.path, content.stamp, content.data)

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
            known = self._known.get(place.path)
            changes = unified(place.name, known, there.data)[:CHANGES] if known is not None else ""
            shown = f" This changed:\n{changes}\n" if changes else " "
            raise ToolFailure(f"{place.name} changed since you read it.{shown}Read it again, then decide.")

    def save(self, place: Place, data: bytes, before: Content | None, turn: int) -> str:
        """Writes. What others changed in the rest of the file counts as unseen until the model reads it. Returns the
        diff of all that this turn did to the file where that is more than this one change."""
        if turn != self._turn:
            self._turn, self._before = turn, {}
        old = before.data if before else b""
        write_file(place.path, data, place.name)
        if before is None or not before.data or self._stamps.get(place.path) == before.stamp:
            self._remember(place.path, stamp_of(data), data)
        first = self._before.setdefault(place.path, old)
        return unified(place.name, first, data) if first != old else ""

    def _remember(self, path: Path, stamp: str, data: bytes) -> None:
        self._stamps[path] = stamp
        self._known.pop(path, None)
        if len(data) <= WHOLE:
            self._known[path] = data
        while len(self._known) > FILES:
            del self._known[next(iter(self._known))]
