"""Remembers which rung of the planner's ladder worked, so that the next start need not run out of memory again.

Only a hint: a lost or damaged book costs a few failed starts, so it never stops one.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from agent.config.jsonfile import write_json
from agent.runtime.hardware import Machine
from agent.runtime.plan import Plan
from agent.runtime.planner import GIB, Wish, room

MORE = GIB // 2  # when so many bytes more are free than then, better plans are tried again
ENTRIES = 64  # the oldest are forgotten


class PlanBook:
    """`file` is JSON in the state folder, written whole or not at all."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def recall(self, machine: Machine, profile: str, engine: str, wish: Wish) -> int:
        """The rung to begin at; 0 when nothing is known. `engine`: its version."""
        entry: Any = self._read().get(_key(machine, profile, engine, wish))
        if not isinstance(entry, dict):
            return 0
        values = cast("dict[str, Any]", entry)
        rung, then = values.get("rung"), values.get("room")
        if not isinstance(rung, int) or not isinstance(then, int) or rung < 0:
            return 0
        return 0 if room(machine, wish.gpu) > then + MORE else rung

    def remember(self, machine: Machine, profile: str, engine: str, wish: Wish, plan: Plan) -> None:
        """`plan` has worked."""
        book = self._read()
        key = _key(machine, profile, engine, wish)
        book.pop(key, None)
        kv = f"{plan.cache_type_k}/{plan.cache_type_v}"
        book[key] = {"rung": plan.rung, "room": plan.room, "ctx": plan.ctx, "kv": kv, "ubatch": plan.ubatch}
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._file, dict(list(book.items())[-ENTRIES:]))

    def _read(self) -> dict[str, Any]:
        try:
            data: Any = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _key(machine: Machine, profile: str, engine: str, wish: Wish) -> str:
    """Another card, engine or wish has another ladder."""
    cards = [f"{g.name} {g.uuid} {g.total}" for g in machine.gpus] if wish.gpu else []
    kinds = " ".join("/".join(pair) for pair in wish.kv)
    return "; ".join(
        [*(cards or [f"{machine.cpu} {machine.ram_total}"]), profile, engine, f"{wish.ctx} {wish.min_ctx} {kinds}"]
    )
