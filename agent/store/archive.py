"""All sessions on this machine: list, load, create, reopen. Reads only what it must for a list."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

from agent.codec import UnknownEvent, decode, decode_prefix
from agent.errors import ConfigError
from agent.events import DurableEvent, TurnStarted
from agent.messages import Prefix
from agent.protocols import SessionInfo
from agent.store.journal import FileJournal


class FileArchive:
    """`root` need not exist."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def list(self, folder: Path | None = None) -> tuple[SessionInfo, ...]:
        """Newest first; broken files are passed over."""
        found: list[SessionInfo] = []
        for path in self._root.glob("*.jsonl") if self._root.is_dir() else ():
            info = _info(path) if path.is_file() else None  # a pipe would never end
            if info is not None and (folder is None or info.folder == str(folder)):
                found.append(info)
        return tuple(sorted(found, key=lambda i: (i.when, i.id), reverse=True))

    def load(self, session_id: str) -> tuple[DurableEvent, ...]:
        """Raises ConfigError for an unknown id or a file that is no journal. Lines it cannot read are passed over:
        the rest of the conversation is worth more."""
        events: list[DurableEvent] = []
        for line in _lines(self._path(session_id))[1:]:
            try:
                event = decode(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(event, UnknownEvent):
                events.append(event)
        return tuple(events)

    def prefix(self, session_id: str) -> Prefix | None:
        """Raises ConfigError for an unknown id."""
        for line in reversed(_lines(self._path(session_id))):
            with contextlib.suppress(ValueError, RecursionError):
                if found := decode_prefix(line):
                    return found
        return None

    def create(self, folder: Path) -> FileJournal:
        now = time.time()
        session_id = _new_id(now)
        return FileJournal(self._root / f"{session_id}.jsonl", session_id, str(folder), now, existing=False)

    def fork(self, session_id: str) -> str:
        """The id of a copy. Raises ConfigError."""
        header, *lines = _lines(self._path(session_id))
        now = time.time()
        copy = _new_id(now)
        try:
            text = json.dumps(json.loads(header) | {"session": copy, "created": now, "fork_of": session_id})
            path = self._root / f"{copy}.jsonl"
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write("\n".join([text, *lines]))
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"Cannot copy session {session_id}: {error}.") from error
        return copy

    def delete(self, session_id: str) -> None:
        """Raises ConfigError for an unknown id, or where another process has it open."""
        self.reopen(session_id).close()
        try:
            self._path(session_id).unlink()
        except OSError as error:
            raise ConfigError(f"Cannot delete session {session_id}: {error.strerror}.") from error

    def reopen(self, session_id: str) -> FileJournal:
        """Raises ConfigError for an unknown id, or when another process has it open."""
        path = self._path(session_id)
        info = _info(path)
        folder = info.folder if info else ""
        try:
            return FileJournal(path, session_id, folder, 0.0, existing=True)
        except OSError as error:
            raise ConfigError(f"Cannot open session {session_id}: {error.strerror}.") from error

    def _path(self, session_id: str) -> Path:
        path = self._root / f"{session_id}.jsonl"
        if not session_id or Path(session_id).name != session_id or not os.path.isfile(path):
            known = ", ".join(i.id for i in self.list()[:3])
            hint = f" The newest are: {known}." if known else " There are none yet."
            raise ConfigError(f"No session {session_id!r}.{hint}")
        return path


def _new_id(now: float) -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{secrets.token_hex(3)}"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error


def _info(path: Path) -> SessionInfo | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            header: Any = json.loads(file.readline())
            title = ""
            for line in file:
                event = decode(line)
                if isinstance(event, TurnStarted):
                    title = (event.message.shown or event.message.text).strip().split("\n", 1)[0][:80]
                    break
        return SessionInfo(path.stem, title, str(header.get("folder", "")), path.stat().st_mtime)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
