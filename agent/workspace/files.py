"""Reading and writing files so that nothing is lost: bounded, atomic, through links, keeping mode and line ends."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolFailure

READ_LIMIT = 10_000_000  # bytes of one file that are taken into memory


@dataclass(frozen=True, slots=True)
class Content:
    """`data` as on disk, `stamp` its hash, `text` None where it is no UTF-8 text."""

    data: bytes
    stamp: str
    text: str | None


def stamp_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_file(path: Path, name: str) -> Content:
    """Only plain files are opened: a pipe or device would block or never end. Raises ToolFailure; FileNotFoundError
    where nothing is there."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ToolFailure(f"{name} is a folder, not a file.")
        if not stat.S_ISREG(status.st_mode):
            raise ToolFailure(f"{name} is not a plain file (a pipe, socket or device) and is not read.")
        if status.st_size > READ_LIMIT:
            size = f"{status.st_size / 1e6:.0f} MB"
            raise ToolFailure(f"{name} has {size}, too much for this tool. Use bash with head, tail, sed or grep.")
        with path.open("rb") as file:
            data = file.read(READ_LIMIT + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ToolFailure(f"Cannot read {name}: {_why(error)}.") from error
    try:
        text = None if b"\0" in data[:8192] else data.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    return Content(data, stamp_of(data), text)


def write_file(path: Path, data: bytes, name: str) -> None:
    """Whole or not at all, through links (a link stays a link), keeping the mode. Raises ToolFailure."""
    try:
        target = path.resolve()
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            raise ToolFailure(f"{name} is not a plain file and is not written.")
        if (mode is not None and not os.access(target, os.W_OK)) or (mode is not None and not mode & 0o222):
            raise ToolFailure(f"{name} is read-only and is left as it is.")
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(prefix=".dflash-", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(part, stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
    except (OSError, RuntimeError) as error:
        raise ToolFailure(f"Cannot write {name}: {_why(error)}.") from error


def _umask() -> int:
    """The kernel tells it without changing it."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("Umask:")), 8)
    return 0o022


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
