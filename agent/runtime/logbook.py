"""What the engine says, in a bounded file. Knows nothing of what the words mean."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO

TAIL = 256_000  # bytes read for the last lines
FILE_LIMIT = 5_000_000  # bytes; an engine near its memory limit has been seen to print 10,000 lines a second


class Logbook:
    """`file` is started afresh; a place that cannot be written is no reason not to run."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._written = 0
        self._file: IO[str] | None = None
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = _open(file)

    def add(self, line: str) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._file.write(line + "\n")
            self._file.flush()
            self._written += len(line) + 1
            if self._written > FILE_LIMIT:
                self._file.close()
                self._path.replace(self._path.with_suffix(".1.log"))
                self._file, self._written = _open(self._path), 0

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def _open(file: Path) -> IO[str]:
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", errors="replace")


def last_lines(file: Path, count: int) -> tuple[str, ...]:
    """The newest lines, oldest first; of the file before it too, where this one has just been begun."""
    lines: list[str] = []
    for part in (file, file.with_suffix(".1.log")):
        with contextlib.suppress(OSError), part.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL))
            lines = [*log.read().decode("utf-8", "replace").splitlines(), *lines]
        if len(lines) >= count:
            break
    return tuple(lines[-count:])
