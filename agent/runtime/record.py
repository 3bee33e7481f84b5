"""What is written down about a running engine, so that other windows of this user can find and verify it."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from agent.config.jsonfile import write_json
from agent.config.profile import Profile
from agent.runtime.lock import start_time


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one engine: of one profile with one set of wishes."""

    folder: Path

    @classmethod
    def of(cls, state: Path, profile: Profile) -> Home:
        """Another context or draft, as a flag may wish, is another engine."""
        wishes = hashlib.sha256(profile.model_dump_json().encode()).hexdigest()
        return cls(state / "engine" / f"{profile.name}-{wishes[:8]}")

    @property
    def keeper_lock(self) -> Path:
        """Held by the keeper for as long as it lives."""
        return self.folder / "keeper.lock"

    @property
    def start_lock(self) -> Path:
        """Held by the window that starts the engine."""
        return self.folder / "start.lock"

    @property
    def lease(self) -> Path:
        """Shared by all windows that use the engine."""
        return self.folder / "lease.lock"

    @property
    def record(self) -> Path:
        return self.folder / "engine.json"

    @property
    def ended(self) -> Path:
        return self.folder / "ended.json"

    @property
    def keep(self) -> Path:
        """While it exists the engine stays, though no window uses it."""
        return self.folder / "keep"

    @property
    def log(self) -> Path:
        return self.folder / "engine.log"


@dataclass(frozen=True, slots=True)
class Record:
    """pid, pid_start, keeper, keeper_start: the engine and its keeper, each with its start time (`lock.start_time`).
    launched: unix seconds. keep_alive: minutes after the last window; -1: for ever. rung, tok_s, acceptance: what the
    canary found; rung "" until it has. engine: its version; dialect: how it is spoken to; ctx: tokens asked for.
    load_s: seconds from its start until it had answered.
    memory_limit: bytes of host memory above which it has outgrown its plan, 0: unknown. plan: the table of its
    memory."""

    pid: int
    pid_start: int
    keeper: int
    keeper_start: int
    port: int
    key: str = field(repr=False)
    model: str
    profile: str
    launched: float
    keep_alive: float = 0.0
    rung: str = ""
    tok_s: float | None = None
    acceptance: float | None = None
    engine: str = ""
    dialect: str = ""
    ctx: int = 0
    load_s: float | None = None
    memory_limit: int = 0
    plan: str = ""

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.pid_start

    @property
    def kept(self) -> bool:
        return start_time(self.keeper) == self.keeper_start


def read_record(path: Path) -> Record | None:
    """None where there is none that can be trusted to be whole."""
    data = _read(path)
    known = {f.name for f in fields(Record)}
    with contextlib.suppress(TypeError):
        record = Record(**{k: v for k, v in data.items() if k in known})
        numbers = (record.pid, record.pid_start, record.keeper, record.keeper_start, record.port)
        if all(type(n) is int and n > 0 for n in numbers) and isinstance(cast(Any, record.key), str):
            return record
    return None


@dataclass(frozen=True, slots=True)
class Ending:
    """status: of the engine, -N: killed by signal N. why: why it did not even start, "" where it did. by_itself: nobody
    had asked for it."""

    status: int = -9
    why: str = ""
    by_itself: bool = True


def read_ending(path: Path) -> Ending:
    data = _read(path)
    status, why, by_itself = data.get("status"), data.get("why"), data.get("by_itself")
    return Ending(
        status if isinstance(status, int) else -9, why if isinstance(why, str) else "", by_itself is not False
    )


def write_record(path: Path, record: Record) -> None:
    write_json(path, asdict(record))


def _read(path: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}
