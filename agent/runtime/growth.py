"""Memory that an engine takes beyond what was planned for it. Engines have leaked it with every checkpoint of the
sliding window and every stored prompt, until the kernel ended them, or something else, in the middle of a reply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent.runtime.plan import Plan
from agent.runtime.record import Record

SLACK = 1 << 30  # bytes above the plan: heaps fragment, and figures of the plan are estimates


def anonymous(pid: int) -> int:
    """Bytes in memory that no file stands behind: what the weights are mapped from does not count. 0 when it has gone,
    or the kernel does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        return int(status.split("RssAnon:")[1].split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return 0


def limit(pid: int, plan: Plan, slack: int) -> int:
    """`pid` has just been found fit: what it may still fill are the caches in host memory."""
    filling = sum(c.bytes for c in plan.costs if c.where == "ram" and c.name in ("checkpoints", "prompt cache"))
    return anonymous(pid) + filling + slack


def outgrown(record: Record) -> bool:
    return 0 < record.memory_limit < anonymous(record.pid)


def lean(plan: Plan) -> Plan:
    """With the least that grows."""
    return replace(plan, checkpoints=min(1, plan.checkpoints), cache_ram=0)
