"""Files and their lines by ripgrep: what .gitignore leaves out is left out, and no search goes on without end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolFailure

SECONDS = 20.0  # a search that takes longer is stopped, and what was found so far is given
LINES_KEPT = 20_000  # of all matches, to sort them; more are only counted
LINE = 300  # characters of a line that matches
BYTES_MOST = 200_000_000  # of output read to count
COMMON = ("--no-config", "--hidden", "--no-require-git", "--glob=!.git", "--color=never", "--no-messages")


@dataclass(frozen=True, slots=True)
class Match:
    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Matches:
    """`kept` sorted by file and line; `count` of all that matched; `whole`: the search came to its end."""

    kept: tuple[Match, ...]
    count: int
    whole: bool


def ripgrep() -> str:
    """The program that came with us, or the system's. Raises ToolFailure."""
    own = os.path.join(sysconfig.get_path("scripts"), "rg")
    found = own if os.access(own, os.X_OK) else shutil.which("rg")
    if not found:
        raise ToolFailure("ripgrep (rg) is not installed; searching needs it. Use bash with find and grep.")
    return found


async def list_files(folder: Path) -> tuple[list[str], bool]:
    """Paths below `folder`, relative to it, in no order; whether those are all. Raises ToolFailure."""
    names: list[str] = []
    rest = b""

    def take(data: bytes) -> None:
        nonlocal rest
        *found, rest = (rest + data).split(b"\0")
        names.extend(map(os.fsdecode, found))

    whole, _ = await _run([*COMMON, "--files", "--null"], folder, take)
    return names, whole


async def grep(folder: Path, pattern: str, where: str) -> Matches:
    """Lines in the file or folder `where` of `folder`, by a regular expression of Rust's. Raises ToolFailure for a
    pattern that is none."""
    flags = ["--line-number", "--with-filename", "--no-heading", "--null", f"--max-columns={LINE}"]
    flags += ["--max-columns-preview", f"--regexp={pattern}", "--", where]
    kept: list[Match] = []
    count = 0
    rest = b""

    def take(data: bytes) -> None:
        nonlocal rest, count
        *lines, rest = (rest + data).split(b"\n")
        count += sum(b"\0" in line for line in lines)
        kept.extend(filter(None, map(_match, _joined(lines)) if len(kept) < LINES_KEPT else ()))

    whole, why = await _run([*COMMON, *flags], folder, take)
    if not count and why:
        raise ToolFailure(f"Cannot search: {why}")
    return Matches(tuple(sorted(kept, key=lambda m: (m.file, m.line))), count, whole)


def _joined(lines: Sequence[bytes]) -> Iterator[bytes]:
    """A line without a NUL is the beginning of a file's name."""
    name = b""
    for line in lines:
        name += line
        if b"\0" in line:
            yield name
            name = b""
        else:
            name += b"\n"


def _match(line: bytes) -> Match | None:
    file, _, rest = line.partition(b"\0")
    number, colon, text = rest.partition(b":")
    if not colon or not number.isdigit():
        return None
    return Match(os.fsdecode(file).removeprefix("./"), int(number), text.decode("utf-8", "replace").rstrip("\r"))


async def _run(arguments: Sequence[str], folder: Path, take: Callable[[bytes], None]) -> tuple[bool, str]:
    """Whether it came to its own end, and its complaint where it could not search."""
    try:
        process = await asyncio.create_subprocess_exec(
            ripgrep(),
            *arguments,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise ToolFailure(f"Cannot search in {folder}: {error.strerror or error}.") from error
    assert process.stdout is not None and process.stderr is not None
    size = 0
    try:
        async with asyncio.timeout(SECONDS):
            while data := await process.stdout.read(1 << 18):
                take(data)
                if (size := size + len(data)) > BYTES_MOST:
                    return False, ""
            words = (await process.stderr.read(4000)).decode("utf-8", "replace").strip()
            status = await process.wait()
        return True, words.removeprefix("rg: ") if status == 2 else ""
    except TimeoutError:
        return False, ""
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
