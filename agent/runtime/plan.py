"""How one launch of an engine uses this machine. Made by the planner, turned into flags by `command`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agent.config.profile import Rung


@dataclass(frozen=True, slots=True)
class Cost:
    """One line of the memory table: `where` is vram or ram; `note` says how the figure came about."""

    name: str
    bytes: int
    where: str = "vram"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """ctx: tokens. cache_type_k, cache_type_v: KV cache types such as f16 or q8_0. batch, ubatch: tokens of one prompt
    batch, and of one pass over the model. checkpoints: states of the sliding window kept in host memory. cache_ram:
    MiB of host memory for conversations that left the slot. threads: None: the engine's choice. rung: how often
    the planner has descended to make it fit. costs: what it needs, for the table. room: bytes that were usable when it
    was made, of VRAM or, without a GPU, of RAM."""

    ctx: int
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    batch: int = 2048
    ubatch: int = 512
    checkpoints: int = 4
    cache_ram: int = 512
    gpu: bool = False
    mlock: bool = False
    threads: int | None = None
    rung: int = 0
    costs: tuple[Cost, ...] = ()
    notes: tuple[str, ...] = ()
    room: int = 0


class Planner(Protocol):
    """Plans the starts of one profile on this machine."""

    def first(self, rung: Rung) -> Plan:
        """Raises RuntimeFailure when nothing fits."""
        ...

    def smaller(self, rung: Rung, plan: Plan) -> Plan | None:
        """What to try when `plan` did not fit after all; None: nothing smaller is of use."""
        ...

    def worked(self, rung: Rung, plan: Plan) -> None:
        """Remember it: the next start begins there."""
        ...
