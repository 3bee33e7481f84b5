"""Reading and writing files so that nothing is lost: bounded, atomic, through links, keeping mode and line ends."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agent.errors import ToolFailure
from agent.workspace.encoding import Text, decode

MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "compressed with gzip"),
    (b"SQLite format 3\0", "an SQLite database"),
)
READ_LIMIT = 10_000_000  # bytes of one file that are taken into memory


@dataclass(frozen=True)
class Content:
    """`data` as on disk, `stamp` its hash."""

    data: bytes
    stamp: str

    @cached_property
    def text(self) -> Text | None:
        """None for what is no text."""
        return decode(self.data)

    @property
    def lines(self) -> list[str]:
        """For reading: without line ends and byte order mark; none of what is no text."""
        if self.text is None:
            return []
        lines = self.text.shown.replace("\r\n", "\n").split("\n")
        return lines[:-1] if lines[-1] == "" else lines


def kind_of(data: bytes) -> str:
    """What bytes that are no text seem to be, in words."""
    for magic, words in MAGIC:
        if data.startswith(magic):
            size = ""
            if words == "a PNG image" and len(data) >= 24:
                size = f" of {int.from_bytes(data[16:20], 'big')} × {int.from_bytes(data[20:24], 'big')}"
            elif words == "a GIF image" and len(data) >= 10:
                size = f" of {int.from_bytes(data[6:8], 'little')} × {int.from_bytes(data[8:10], 'little')}"
            return words + size
    return "an image (WebP)" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else "binary"


def stamp_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_plain(path: Path, name: str, *, folder: bool = False) -> os.stat_result | None:
    """None where nothing is. Raises ToolFailure for all that is neither a plain file nor, where wanted, a folder."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolFailure(f"Cannot use {_cut(name)}: {_why(error)}.") from error
    if stat.S_ISDIR(status.st_mode):
        if folder:
            return status
        raise ToolFailure(f"{name} is a folder, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure(f"{name} is not a plain file (a pipe, socket or device) and cannot be used here.")
    return status


def read_file(path: Path, name: str) -> Content:
    """Only plain files are opened: a pipe or device would block or never end. Raises ToolFailure; FileNotFoundError
    where nothing is there."""
    status = check_plain(path, name)
    if status is None:
        raise FileNotFoundError(name)
    if status.st_size > READ_LIMIT:
        size = f"{status.st_size / 1e6:.0f} MB"
        raise ToolFailure(f"{name} is too large for this tool ({size}). Use bash with head, tail, sed or grep.")
    try:
        # not blocking: between the look and the opening a pipe may have taken the file's place
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(READ_LIMIT + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ToolFailure(f"Cannot read {name}: {_why(error)}.") from error
    return Content(data, stamp_of(data))


def entries(path: Path, name: str, most: int) -> tuple[list[str], int]:
    """The first `most` names of a folder in order, folders with a slash, and how many there are. Raises ToolFailure."""
    try:
        with os.scandir(path) as found:
            names = sorted(e.name + ("/" if _is_folder(e) else "") for e in found)
    except OSError as error:
        raise ToolFailure(f"Cannot read {name}: {_why(error)}.") from error
    return [n.encode("utf-8", "replace").decode() for n in names[:most]], len(names)


def holds_any(folder: Path) -> bool:
    """True too where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return next(found, None) is not None
    except OSError:
        return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def write_file(target: Path, data: bytes, name: str) -> None:
    """Whole or not at all, keeping mode and owner. `target` is the real place, links followed: so a link stays one.
    Files with several names (hard links) and those in folders that take no new file are written in place. Raises
    ToolFailure."""
    status = check_plain(target, name)
    if status is not None and not (status.st_mode & 0o222 and os.access(target, os.W_OK)):
        raise ToolFailure(f"{name} is read-only and is left as it is.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if status is not None and (status.st_nlink > 1 or not _replaceable(target, status)):
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC), "wb") as file:
                file.write(data)
        else:
            _replace(target, data, status)
        if status is not None and status.st_size == len(data):
            _date_anew(target, status)
    except OSError as error:
        raise ToolFailure(f"Cannot write {_cut(name)}: {_why(error)}.") from error


def _date_anew(target: Path, before: os.stat_result) -> None:
    """Python takes a compiled file for good while size and second of its source are the same: a change made within a
    second would not be seen."""
    now = target.stat()
    if int(now.st_mtime) == int(before.st_mtime):
        os.utime(target, (now.st_atime, int(now.st_mtime) + 1))


def _replaceable(target: Path, status: os.stat_result) -> bool:
    return os.access(target.parent, os.W_OK) and status.st_uid == os.geteuid() and not target.is_mount()


def _replace(target: Path, data: bytes, status: os.stat_result | None) -> None:
    descriptor, part = tempfile.mkstemp(prefix=".dflash-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, stat.S_IMODE(status.st_mode) if status is not None else 0o666 & ~_umask())
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _umask() -> int:
    """The kernel tells it without changing it."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("Umask:")), 8)
    return 0o022


def _why(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "its links lead in a circle"
    return error.strerror or str(error)


def _cut(name: str) -> str:
    return name if len(name) <= 200 else f"{name[:200]}…"
