"""Locks between processes, and who a process is. The kernel lets go of a lock when its holder dies, however it dies;
a pid alone proves nothing, for it is given out again."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path

POLL = 0.1  # seconds between tries; another window holds a start for seconds to minutes


class FileLock:
    """`shared`: several holders at once, and none beside an exclusive one. The file stays; its content means nothing.
    Raises OSError where the folder cannot be written."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self._path = path
        self._mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        return self._fd is not None

    def take(self) -> bool:
        """At once, or not at all."""
        if self._fd is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, self._mode)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._fd = descriptor
        return True

    async def wait(self) -> None:
        while not self.take():  # noqa: ASYNC110 - another process lets go, without a word to us
            await asyncio.sleep(POLL)

    def release(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_free(path: Path) -> bool:
    """Whether nobody holds an exclusive lock on it now."""
    lock = FileLock(path, shared=True)
    try:
        return lock.take()
    finally:
        lock.release()


def holders(path: Path) -> int | None:
    """How many hold a lock on it now; None where the kernel does not tell (proc_locks(5))."""
    try:
        number = f":{path.stat().st_ino} "
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return sum("FLOCK" in line and "->" not in line and number in line for line in lines)


def start_time(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot (proc_pid_stat(5), field 22); None when it is gone or only
    waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
