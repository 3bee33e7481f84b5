"""The tools that look for files and lines: list, glob, grep. What .gitignore leaves out is left out; what is cut is
counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from agent.errors import ToolFailure
from agent.globs import glob_regex, has_glob
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.limits import plain
from agent.tools.seen import Place
from agent.workspace.files import check_plain, entries, holds_any
from agent.workspace.paths import Workspace
from agent.workspace.search import Match, grep, list_files

LISTED = 200  # names of a listing
FOUND = 100  # paths of a glob
MATCHES = 100  # lines of a grep
MATCH_BYTES = 16_000  # of them together


class ListParams(Params):
    path: str = "."


class GlobParams(Params):
    pattern: str


class GrepParams(Params):
    path: str = "."
    pattern: str


def _folder(place: Place) -> Path:
    """Raises ToolFailure where there is none."""
    status = check_plain(place.path, place.name, folder=True)
    if status is None:
        raise ToolFailure(f"There is no {place.name}.")
    if not place.path.is_dir():
        raise ToolFailure(f"{place.name} is a file; use read.")
    return place.path


class List:
    name = "list"
    params = ListParams

    def __init__(self, workspace: Workspace) -> None:
        self.description = description_of("list")
        self._workspace = workspace

    def plan(self, params: ListParams) -> Plan:
        place = Place.of(self._workspace, params.path)
        return Plan("read", place.name, (str(place.path),), outside=place.outside, accesses=(place.access("read"),))

    async def run(self, params: ListParams, ctx: ToolContext) -> ToolOutput:
        place = Place.of(self._workspace, params.path)
        folder = _folder(place)
        here, count = entries(folder, place.name, LISTED)
        if not count:
            return ToolOutput(f"{place.name} is empty.")
        files, whole = await list_files(folder)
        empty = {name for name in here if name.endswith("/") and not holds_any(folder / name)}
        return ToolOutput(_tree(here, count, files, whole, empty))


def _tree(here: Sequence[str], count: int, files: Sequence[str], whole: bool, empty: Collection[str]) -> str:
    """The entries of the folder, and what is below as far as there is room: the folders with the fewest first."""
    below: dict[str, list[str]] = {}
    for file in files:
        if (cut := file.find("/")) > 0:
            below.setdefault(file[: cut + 1], []).append(file[cut + 1 :])
    room = LISTED - len(here)
    shown: dict[str, list[str]] = {}
    for folder in sorted((f for f in here if f.endswith("/")), key=lambda f: len(below.get(f, ()))):
        inside = sorted(below.get(folder, ()))
        if 0 < len(inside) <= room:
            shown[folder] = inside
            room -= len(inside)
    rows: list[str] = []
    for name in here:
        inside = below.get(name, [])
        note = ""
        if name.endswith("/") and name not in shown:
            note = f"  ({len(inside):,} files)" if inside else "  (empty)" if name in empty else "  (ignored)"
        rows += [f"{_row(name)}{note}", *(f"  {_row(file)}" for file in shown.get(name, ()))]
    if count > len(here):
        rows.append(f"[{count - len(here)} more entries are left out]")
    if not whole:
        rows.append("[the search took too long and was stopped: there is more]")
    return "\n".join(rows)


class Glob:
    name = "glob"
    params = GlobParams

    def __init__(self, workspace: Workspace) -> None:
        self.description = description_of("glob")
        self._workspace = workspace

    def _start(self, params: GlobParams) -> tuple[Place, str]:
        """The folder where a pattern begins to be one, and the pattern from there."""
        pattern = os.path.expanduser(params.pattern.strip()).removeprefix("./")
        if not pattern:
            raise ToolFailure("The pattern is empty. Give one such as **/*.py.")
        parts = pattern.split("/")
        fixed = next((n for n, part in enumerate(parts) if has_glob(part)), len(parts) - 1)
        return Place.of(self._workspace, "/".join(parts[:fixed]) or ("/" if fixed else ".")), "/".join(parts[fixed:])

    def plan(self, params: GlobParams) -> Plan:
        place, _ = self._start(params)
        used = (place.access("read"),)
        return Plan("search", params.pattern, (str(place.path),), outside=place.outside, accesses=used)

    async def run(self, params: GlobParams, ctx: ToolContext) -> ToolOutput:
        place, pattern = self._start(params)
        if not place.path.is_dir():
            raise ToolFailure(f"There is no folder {place.name}.")
        files, whole = await list_files(place.path)
        matches = glob_regex(pattern if "/" in pattern or place.name != "." else f"**/{pattern}").match
        found = [file for file in files if matches(file)]
        if not found:
            return ToolOutput(f"No file matches {params.pattern} (files that .gitignore leaves out do not count).")
        prefix = "" if place.name == "." else f"{place.name.rstrip('/')}/"
        names = [prefix + _row(file) for file in _newest(place.path, found)[:FOUND]]
        if len(found) > FOUND:
            names.append(f"[the {FOUND} newest of {len(found):,}; narrow the pattern for others]")
        if not whole:
            names.append("[the search took too long and was stopped: there may be more]")
        return ToolOutput("\n".join(names))


def _newest(folder: Path, files: Iterable[str]) -> list[str]:
    def changed(file: str) -> float:
        try:
            return os.lstat(os.path.join(folder, file)).st_mtime
        except OSError:
            return 0.0

    return sorted(sorted(files), key=changed, reverse=True)


class Grep:
    """`hides`: of which files (absolute paths) nothing may be shown."""

    name = "grep"
    params = GrepParams

    def __init__(self, workspace: Workspace, hides: Callable[[str], bool]) -> None:
        self.description = description_of("grep")
        self._workspace = workspace
        self._hides = hides

    def plan(self, params: GrepParams) -> Plan:
        if not params.pattern:
            raise ToolFailure("The pattern is empty. Nothing was searched.")
        place, _ = self._place(params)
        used = (place.access("read"),)
        title = f"{params.pattern} in {place.name}" if place.name != "." else params.pattern
        return Plan("search", title, (str(place.path),), outside=place.outside, accesses=used)

    def _place(self, params: GrepParams) -> tuple[Place, str]:
        """A path that is a pattern is looked up from the folder where it begins to be one."""
        path = params.path.strip() or "."
        if has_glob(path) and not os.path.lexists(self._workspace.locate(path)):
            parts = path.split("/")
            fixed = next(n for n, part in enumerate(parts) if has_glob(part))
            return Place.of(self._workspace, "/".join(parts[:fixed]) or "."), "/".join(parts[fixed:])
        return Place.of(self._workspace, path), ""

    async def run(self, params: GrepParams, ctx: ToolContext) -> ToolOutput:
        place, only = self._place(params)
        if check_plain(place.path, place.name, folder=True) is None:
            raise ToolFailure(f"There is no {place.name}.")
        folder, where = (place.path, ".") if place.path.is_dir() else (place.path.parent, place.path.name)
        found = await grep(folder, params.pattern, f"./{where}" if where != "." else where)
        fits = glob_regex(only if "/" in only else f"**/{only}").match if only else None
        kept = [m for m in found.kept if fits is None or fits(m.file)]
        shown = [m for m in kept if not self._hides(str(folder / m.file))]
        count = found.count - (len(found.kept) - len(shown))
        if not shown:
            return ToolOutput(
                f"No line matches {params.pattern} in {'the project' if place.name == '.' else place.name}."
            )
        prefix = "" if place.name == "." or where != "." else f"{place.name.rstrip('/')}/"
        prefix = f"{place.name.rpartition('/')[0]}/" if where != "." and "/" in place.name else prefix
        return ToolOutput(_grouped(shown, prefix, count, found.whole))


def _grouped(matches: Sequence[Match], prefix: str, count: int, whole: bool) -> str:
    """Lines under the name of their file."""
    rows: list[str] = []
    size, given, last = 0, 0, ""
    for match in matches[:MATCHES]:
        new = [prefix + _row(match.file)] if match.file != last else []
        new.append(f"{match.line:>5}\t{plain(match.text)}")
        size += sum(len(row.encode("utf-8", "replace")) + 1 for row in new)
        if size > MATCH_BYTES and given:
            break
        rows += new
        given, last = given + 1, match.file
    if count > given:
        rows.append(f"[{count - given:,} more lines match and are left out; narrow the pattern or the path]")
    if not whole:
        rows.append("[the search was stopped before its end: there may be more]")
    return "\n".join(rows)


def _row(name: str) -> str:
    """A name on disk may hold bytes that are no text."""
    return plain(name.encode("utf-8", "replace").decode())
