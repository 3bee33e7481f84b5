"""What each turn did to files, so that it can be undone and done again. Kept on disk by session; knows no events."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent.errors import AgentError
from agent.workspace.snapshots import Change, Saved, Store, Uncovered, look

TURNS = 100  # of one session that can be undone


@dataclass(slots=True)
class Turn:
    """`files`: single files before they were changed, and whether a tree had been taken by then. `tree`: the folder
    before the first command; `after…`: the same at the turn's end. `store`: where the contents are."""

    turn: int
    store: int
    files: dict[str, Saved | None] = field(default_factory=dict[str, "Saved | None"])
    later: list[str] = field(default_factory=list[str])
    tree: str = ""
    after_files: dict[str, Saved | None] = field(default_factory=dict[str, "Saved | None"])
    after: str = ""
    left_out: list[str] = field(default_factory=list[str])
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """`paths`: what was put back. `kept`: left alone, since someone has changed them meanwhile. `left_out`: what a
    snapshot does not cover."""

    turn: int
    paths: tuple[str, ...]
    kept: tuple[str, ...]
    left_out: tuple[str, ...]


class Checkpoints:
    """`folder`: where sessions of this project keep theirs. `trees`: empty, or why the whole folder is never taken."""

    def __init__(self, folder: Path, root: Path, session: str, keep_out: Sequence[Path], trees: str = "") -> None:
        self._root = root
        self._store = Store(folder, root, keep_out)
        self._file = folder / "turns" / f"{session}.json"
        self._no_trees = trees
        self._told: set[str] = set()
        self._turns: list[Turn] | None = None

    # ---- while a turn runs
    async def before(self, turn: int, files: Sequence[str], *, whole: bool) -> str:
        """Called before a call changes `files`, or (`whole`) may change anything. What the user should know, once."""
        try:
            return await asyncio.to_thread(self._before, turn, files, whole)
        except Uncovered as why:
            return self._once(f"Changes cannot be undone here: {why}.")

    def _before(self, turn: int, files: Sequence[str], whole: bool) -> str:
        record = self._record(turn)
        for path in files:
            if path not in record.files:
                record.files[path] = self._store.save(record.store, path)
                if record.tree:
                    record.later.append(path)
        note = ""
        if whole and not record.tree:
            try:
                if self._no_trees:
                    raise Uncovered(self._no_trees)
                record.tree, left_out = self._store.tree(record.store)
                record.left_out = list(left_out)
            except Uncovered as why:
                note = self._once(f"What commands change cannot be undone here ({why}); edits can.")
        self._write()
        return note

    async def after(self, turn: int) -> None:
        with contextlib.suppress(Uncovered):
            await asyncio.to_thread(self._after, turn)

    def _after(self, turn: int) -> None:
        record = next((t for t in self._loaded() if t.turn == turn), None)
        if record is None:
            return
        for path in record.files:
            with contextlib.suppress(Uncovered):
                record.after_files[path] = self._store.save(record.store, path)
        if record.tree:
            record.after, left_out = self._store.tree(record.store)
            record.left_out = sorted({*record.left_out, *left_out})
        if not self._changes(record):
            self._loaded().remove(record)
        self._write()

    # ---- what the user does
    async def undo(self) -> Restored:
        """Puts back what the last turn changed. Raises AgentError when there is nothing."""
        return await self._restore(back=True)

    async def redo(self) -> Restored:
        return await self._restore(back=False)

    async def changed(self, turn: int | None = None) -> list[tuple[str, bytes, bytes]]:
        """Name, old and new content of what the turns of this session (or one of them) did and the files still show."""
        try:
            return await asyncio.to_thread(self._changed, turn)
        except Uncovered as why:
            raise AgentError(f"The changes cannot be shown: {why}.") from why

    def last(self) -> tuple[int, list[str]] | None:
        """The turn that undo would take, and its files."""
        record = next((t for t in reversed(self._loaded()) if not t.undone), None)
        if record is None:
            return None
        with contextlib.suppress(Uncovered):
            return record.turn, [self._name(c.path) for c in self._changes(record)]
        return None

    async def _restore(self, back: bool) -> Restored:
        turns = await asyncio.to_thread(self._loaded)
        open_ones = [t for t in turns if t.undone != back and self._store.has(t.store)]
        if not open_ones:
            raise AgentError("Nothing to undo: no change of this session is left." if back else "Nothing to redo.")
        record = open_ones[-1 if back else 0]
        try:
            return await asyncio.to_thread(self._put_back, record, back)
        except Uncovered as why:
            raise AgentError(f"It cannot be {'undone' if back else 'redone'}: {why}.") from why

    def _put_back(self, record: Turn, back: bool) -> Restored:
        done: list[str] = []
        kept: list[str] = []
        steps = [(c.path, c.after, c.before) if back else (c.path, c.before, c.after) for c in self._changes(record)]
        for path, here, wanted in sorted(steps, key=lambda s: s[2] is not None):  # a file may stand where a folder was
            try:
                found = look(path)
                now = found[0] if found else None
                if not _equal(now, here):
                    if not _equal(now, wanted):
                        kept.append(self._name(path))
                    continue
                self._store.put_back(record.store, path, wanted)
            except Uncovered:
                kept.append(self._name(path))
            else:
                done.append(self._name(path))
        record.undone = back
        self._write()
        return Restored(record.turn, tuple(sorted(done)), tuple(sorted(kept)), tuple(record.left_out))

    def _changed(self, turn: int | None) -> list[tuple[str, bytes, bytes]]:
        first: dict[str, tuple[int, Saved | None]] = {}
        for record in self._loaded():
            if not record.undone and turn in (None, record.turn):
                for change in self._changes(record):
                    first.setdefault(change.path, (record.store, change.before))
        rows: list[tuple[str, bytes, bytes]] = []
        for path, (store, before) in sorted(first.items()):
            found = look(path)
            if not _equal(found[0] if found else None, before):
                old = self._store.content(store, before) if before else b""
                rows.append((self._name(path), old, found[1] if found else b""))
        return rows

    # ---- records
    def _changes(self, record: Turn) -> list[Change]:
        """Of a file that both were kept of, what was kept first counts."""
        changes: dict[str, Change] = {}
        if record.tree and record.after and record.tree != record.after:
            changes = {c.path: c for c in self._store.changes(record.store, record.tree, record.after)}
        for path, before in record.files.items():
            if path in record.later and path in changes:
                continue
            change = Change(path, before, record.after_files.get(path))
            if _equal(change.before, change.after):
                changes.pop(path, None)
            else:
                changes[path] = change
        return sorted(changes.values(), key=lambda c: c.path)

    def _record(self, turn: int) -> Turn:
        turns = self._loaded()
        found = next((t for t in turns if t.turn == turn and not t.undone), None)
        if found is None:
            found = Turn(turn, self._store.open())
            turns[:] = [t for t in turns if not t.undone][-(TURNS - 1) :]  # what was undone is over now
            turns.append(found)
        return found

    def _loaded(self) -> list[Turn]:
        if self._turns is None:
            self._turns = []
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                self._turns = [_turn(data) for data in json.loads(self._file.read_text(encoding="utf-8"))]
        return self._turns

    def _write(self) -> None:
        part = self._file.with_suffix(".part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part.write_text(json.dumps([asdict(t) for t in self._loaded()]), encoding="ascii")
            part.replace(self._file)
        except OSError as error:
            raise Uncovered(f"{self._file} cannot be written ({error.strerror})") from error

    def _name(self, path: str) -> str:
        name = os.path.relpath(path, self._root)
        return path if name.startswith("..") else name

    def _once(self, text: str) -> str:
        if text in self._told:
            return ""
        self._told.add(text)
        return text


def place_of(data: Path, root: Path) -> Path:
    """Where the checkpoints of a project are."""
    return data / "checkpoints" / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


def _equal(one: Saved | None, other: Saved | None) -> bool:
    return one is other if one is None or other is None else one.same(other)


def _turn(data: dict[str, Any]) -> Turn:
    for key in ("files", "after_files"):
        data[key] = {path: Saved(**saved) if saved else None for path, saved in data[key].items()}
    return Turn(**data)
