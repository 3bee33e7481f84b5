"""One session as a JSON-lines file of its durable events, written as they happen. Knows nothing of the screen.

The first line is a header `{"v": 1, "session": ID, "folder": PATH, "created": unix seconds}`. A file appears with the
first event, so that a session without a word leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from pathlib import Path
from typing import IO

from agent.codec import VERSION, encode, encode_prefix
from agent.errors import ConfigError
from agent.events import DurableEvent
from agent.messages import Prefix


class FileJournal:
    """`append` raises OSError when the line cannot be written where it will be looked for. Holds a lock on the file
    while open."""

    def __init__(self, path: Path, session_id: str, folder: str, created: float, *, existing: bool) -> None:
        """Raises ConfigError when another process has this session open."""
        self._path = path
        self._id = session_id
        self._header = {"v": VERSION, "session": session_id, "folder": folder, "created": created}
        self._file: IO[bytes] | None = None
        if existing:
            self._file = self._open()
            _drop_half_line(self._file)

    @property
    def session_id(self) -> str:
        return self._id

    def append(self, event: DurableEvent) -> None:
        self._line(encode(event))

    def fix(self, prefix: Prefix) -> None:
        self._line(encode_prefix(prefix))

    def _line(self, text: str) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = self._open()
            self._write(json.dumps(self._header))
        self.look()
        self._write(text)

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _open(self) -> IO[bytes]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"Session {self._id} is open in another window; close it there, or start a new session."
            ) from None
        return os.fdopen(descriptor, "a+b")

    def look(self) -> None:
        if self._file is None:
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
                return
        raise OSError(errno.ENOENT, f"{self._path} was moved or deleted")

    def _write(self, line: str) -> None:
        assert self._file is not None
        self._file.write(line.encode("ascii") + b"\n")
        self._file.flush()


def _drop_half_line(file: IO[bytes]) -> None:
    """A process that was killed while writing leaves a line without its end; what follows must not be glued to it."""
    size = file.seek(0, os.SEEK_END)
    while size > 0:
        start = max(0, size - 65536)
        file.seek(start)
        block = file.read(size - start)
        end = block.rfind(b"\n")
        if end >= 0:
            if start + end + 1 != file.seek(0, os.SEEK_END):
                file.truncate(start + end + 1)
            return
        size = start
    file.truncate(0)
