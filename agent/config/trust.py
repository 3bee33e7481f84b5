"""What the user has let run that came with a folder: skills, commands, hooks, MCP servers. Remembered by place and
content, so that a change is asked about again. Asks nobody itself, and does not know what the things are."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agent.config.foreign import mapping
from agent.config.jsonfile import read_object, write_json
from agent.config.plainfile import open_plain

Verdict: TypeAlias = Literal["allowed", "refused", "changed", "new"]


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that would run. `name` tells apart several in one place (the entries of a file); `digest`: of all that
    decides what it does, from `digest_of` or `digest_of_files`."""

    place: Path
    digest: str
    name: str = ""

    @property
    def key(self) -> str:
        return f"{os.path.realpath(self.place)}#{self.name}" if self.name else os.path.realpath(self.place)


class Trust:
    """The user's answers, in `file`. `everything`: what is there counts as allowed for this run (`--trust`), and
    nothing of that is remembered."""

    def __init__(self, file: Path, *, everything: bool = False) -> None:
        self._file = file
        self._everything = everything
        self._said: dict[str, Mapping[str, Any]] = {}  # answers that could not be written count for this run

    def verdict(self, thing: Thing) -> Verdict:
        """`changed`: another content of it was answered for; like `new`, it must not run before the user says so."""
        if self._everything:
            return "allowed"
        entry = mapping(self._said.get(thing.key) or self._entries().get(thing.key))
        if not entry:
            return "new"
        if entry.get("digest") != thing.digest:
            return "changed"
        return "allowed" if entry.get("allowed") is True else "refused"

    def allows(self, thing: Thing) -> bool:
        return self.verdict(thing) == "allowed"

    def settle(self, thing: Thing, *, allowed: bool, remember: bool = True) -> bool:
        """Takes an answer. False: it could not be written, or was not to be, and counts for this run only."""
        entry = {"digest": thing.digest, "allowed": allowed}
        self._said[thing.key] = entry
        return remember and self._change(lambda entries: entries | {thing.key: entry})

    def forget(self, thing: Thing) -> bool:
        """It will be asked about again."""
        self._said.pop(thing.key, None)
        return self._change(lambda entries: {k: v for k, v in entries.items() if k != thing.key})

    def _entries(self) -> dict[str, Any]:
        return dict(mapping(read_object(self._file).get("things")))

    def _change(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(self._file.with_suffix(".lock")):
                write_json(self._file, {"version": 1, "things": change(self._entries())})
        except OSError:
            return False
        return True


def digest_of(value: Any) -> str:
    """Of plain JSON data; the order of keys does not count."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest_of_files(files: Iterable[Path]) -> str:
    """Of names and contents, whatever their order. Links count by what they lead to; what cannot be read counts as
    such, so that it becoming readable is a change."""
    whole = hashlib.sha256()
    for file in sorted(files):
        content = b"unreadable"
        with contextlib.suppress(OSError), open_plain(file) as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest().encode()
        whole.update(os.fsencode(file) + b"\0" + content + b"\0")
    return whole.hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None]:
    """Two windows that answer at once must not lose one answer."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
