"""Files and folders of the project as things that a message may mention. They are shown by the model's own tools, so
that it knows them as if it had read them itself; what .gitignore leaves out is not offered, but can be named."""

from __future__ import annotations

import asyncio
import heapq
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel

from agent.errors import ToolFailure
from agent.protocols import Offered, Tool
from agent.workspace.paths import Workspace
from agent.workspace.search import list_files

OFFERED = 30  # so that there is room for what servers have
FRESH = 3.0  # seconds for which a listing counts as new
_LINES = re.compile(r"(.+?)(?::|#L?)(\d+)(?:-L?(\d+))?")  # a name, and the lines that are meant


class Files:
    """`read` and `listing`: the tools that show a file and a folder. `hides`: of which files (absolute paths) nothing
    may be shown."""

    def __init__(self, workspace: Workspace, read: Tool, listing: Tool, hides: Callable[[str], bool]) -> None:
        self._workspace = workspace
        self._read = read
        self._listing = listing
        self._hides = hides
        self._names: Sequence[str] = ()
        self._looked = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    def find(self, name: str) -> tuple[Tool, BaseModel] | None:
        try:
            path = self._workspace.locate(name)
        except ToolFailure:
            return None
        if os.path.isdir(path):
            return self._listing, self._listing.params.model_validate({"path": name})
        if os.path.exists(path):
            return self._read, self._read.params.model_validate({"file": name})
        if (part := _LINES.fullmatch(name)) and os.path.isfile(self._workspace.locate(part[1])):
            first, last = int(part[2]), int(part[3] or part[2])
            meant = {"file": part[1], "offset": first, "limit": max(1, last - first + 1)}
            return self._read, self._read.params.model_validate(meant)
        return None

    async def offers(self, written: str) -> Sequence[Offered]:
        if time.monotonic() - self._looked > FRESH and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look())
        if self._looking is not None and not self._names:
            await asyncio.wait([self._looking])
        root = self._workspace.root
        found = await asyncio.to_thread(fitting, written, self._names)
        return [Offered(name, more=name.endswith("/")) for name in found if not self._hides(str(root / name))]

    async def _look(self) -> None:
        try:
            files, _ = await list_files(self._workspace.root)
        except ToolFailure:  # without ripgrep nothing is offered; what is written in full still counts
            files = []
        self._names = await asyncio.to_thread(newest_first, self._workspace.root, files)
        self._looked = time.monotonic()


def newest_first(root: Path, files: Iterable[str]) -> list[str]:
    """Files by when they were last written, and each folder (with a slash) behind the newest file in it. Names that
    could not be written in a message are left out."""
    dated: list[tuple[float, str]] = []
    for name in files:
        if name.isprintable() and '"' not in name:
            try:
                dated.append((-os.stat(root / name).st_mtime, name))
            except OSError:
                continue
    names: dict[str, None] = {}
    for _, name in sorted(dated):
        names[name] = None
        end = name.rfind("/")
        while end > 0 and (folder := name[: end + 1]) not in names:
            names[folder] = None
            end = name.rfind("/", 0, end)
    return list(names)


def fitting(written: str, names: Sequence[str]) -> list[str]:
    """Names that `written` may mean: as the beginning of the last part, within it, within the path, or with other signs
    between its own; among those that fit alike the first ones of `names` first."""
    wanted = written.lower().removeprefix("./")
    if not wanted:
        return list(names[:OFFERED])
    scattered = re.compile("".join(f"[^{re.escape(sign)}]*{re.escape(sign)}" for sign in wanted), re.DOTALL)

    def rank(name: str) -> int | None:
        low = name.lower()
        if wanted in low:
            last = low[low.rstrip("/").rfind("/") + 1 :]
            return 0 if low.startswith(wanted) or last.startswith(wanted) else 1 if wanted in last else 2
        return 3 if scattered.match(low) else None

    ranked = ((place, n) for n, name in enumerate(names) if (place := rank(name)) is not None)
    return [names[n] for _, n in heapq.nsmallest(OFFERED, ranked)]
