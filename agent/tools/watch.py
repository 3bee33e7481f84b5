"""When a command that still runs is to be handed back: it serves a port, or waits for somebody at the keyboard. Judges
by what the system says of its processes; changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agent.tools import proc
from agent.tools.job import Job
from agent.tools.proc import Proc

Verdict: TypeAlias = Literal["", "port", "input"]
SETTLED = 1.0  # seconds without output after which a server is up, and a prompt is one
AT_MOST = 8.0  # seconds that a port is open; a server that logs all the time is one as well
SILENT = 3.0  # seconds without output in a read of the terminal, where no unfinished line is a prompt
STILL = 2.0  # seconds after a key in which a menu that was asking counts as still asking
_ASKS = re.compile(r"[?:>\])%$#»…]\s*$")


@dataclass(slots=True)
class Watch:
    """Of one job in the foreground; `look` every now and then. `since`: monotonic seconds when it first listened."""

    job: Job
    since: float | None = None

    def look(self, now: float) -> Verdict:
        job = self.job
        table = proc.quick_descendants()
        members = job.members(table)
        quiet = now - max(job.output.heard, job.typed)
        if self._served(members, table):
            self.since = now if self.since is None else self.since
            open_for = now - self.since
            return "port" if (open_for >= SETTLED <= quiet) or open_for >= AT_MOST else ""
        self.since = None
        if quiet < SETTLED:
            return "input" if job.asks is not None and now - job.typed < STILL else ""
        return "input" if self._asks(members, quiet) else ""

    def _served(self, members: tuple[Proc, ...], table: Mapping[int, Proc]) -> tuple[int, ...]:
        """Ports that it is meant to serve. A test run opens ports too: those have numbers that the system chose, and
        nobody names them. What the command itself put into the background (its input is /dev/null) is not what it
        waits for."""
        found = proc.ports([p.pid for p in members])
        return tuple(
            sorted(
                {
                    port
                    for pid, mine in found.items()
                    if not self._behind(pid, table)
                    for port in mine
                    if port < _first_ephemeral() or self._named(port)
                }
            )
        )

    def _named(self, port: int) -> bool:
        said = f"{self.job.command}\n{self.job.text()}"
        return re.search(rf"(?<!\d){port}(?!\d)", said) is not None

    def _behind(self, pid: int, table: Mapping[int, Proc]) -> bool:
        while pid in table and pid != self.job.terminal.leader:
            if proc.files(pid).get(0) == "/dev/null":
                return True
            pid = table[pid].parent
        return False

    def _asks(self, members: tuple[Proc, ...], quiet: float) -> bool:
        terminal = self.job.terminal
        last = self.job.output.tail.rpartition("\n")[2]
        keys, _ = terminal.keys()
        if any(proc.reads(p.pid, terminal.name) for p in members):
            return bool(last.strip()) or quiet >= SILENT
        if keys or _ASKS.search(last):
            return any(proc.waits(p.pid, terminal.name) for p in members)
        return False


def _first_ephemeral() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768
