"""What the system says of processes: who descends from us, what they hold open, where they listen, whether they read a
terminal. Reads /proc and changes nothing; knows neither commands nor tools."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_LISTENING = "0A"  # the state in /proc/net/tcp
# system calls by number: those that read, and those that wait for several files at once
_READS, _WAITS = {
    "x86_64": ({0, 19}, {7, 23, 232, 270, 271, 281, 441}),
    "aarch64": ({63, 65}, {22, 72, 73, 441}),
}.get(platform.machine(), (set[int](), set[int]()))


@dataclass(frozen=True, slots=True)
class Proc:
    """`start`: clock ticks since boot; with the pid it names a process for ever."""

    pid: int
    start: int
    parent: int
    session: int
    state: str
    command: str

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"


def read(pid: int) -> Proc | None:
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None
    fields = tail.split()
    return Proc(pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0], command or head.partition("(")[2])


def descendants() -> dict[int, Proc]:
    """All processes below this one, from a whole reading of /proc: some 2 ms for 100 processes."""
    table = [p for e in os.listdir("/proc") if e.isdigit() and (p := read(int(e)))]
    children: dict[int, list[Proc]] = {}
    for proc in table:
        children.setdefault(proc.parent, []).append(proc)
    found: dict[int, Proc] = {}
    todo = [os.getpid()]
    while todo:
        for proc in children.get(todo.pop(), ()):
            if proc.pid not in found:
                found[proc.pid] = proc
                todo.append(proc.pid)
    return found


def quick_descendants() -> dict[int, Proc]:
    """The same by the kernel's lists of children, where it keeps them: its cost does not grow with the machine, but one
    that appears meanwhile may be missed."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return descendants()
    found: dict[int, Proc] = {}
    todo = [os.getpid()]
    while todo:
        for pid in _children(todo.pop()):
            if pid not in found and (proc := read(pid)):
                found[pid] = proc
                todo.append(pid)
    return found


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                yield from map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())


def has_variable(pid: int, setting: str) -> bool:
    """`setting`: NAME=value, as the process was given it when it started."""
    try:
        return setting.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def files(pid: int) -> dict[int, str]:
    """What its open descriptors lead to; empty for a process that we may not look into."""
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found[int(entry.name)] = os.readlink(entry.path)
    return found


def ports(pids: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The TCP ports on which each of them listens; those that listen on none are left out."""
    sockets: dict[int, list[str]] = {}
    for pid in pids:
        held = [target[8:-1] for target in files(pid).values() if target.startswith("socket:[")]
        if held:
            sockets[pid] = held
    found: dict[int, tuple[int, ...]] = {}
    tables: dict[str, dict[str, int]] = {}
    for pid, held in sockets.items():
        listening = _listening(pid, tables)
        if mine := sorted({listening[inode] for inode in held if inode in listening}):
            found[pid] = tuple(mine)
    return found


def _listening(pid: int, known: dict[str, dict[str, int]]) -> dict[str, int]:
    """Port by inode, in the process's own network; each network is read once."""
    try:
        network = os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return {}
    if network not in known:
        known[network] = {}
        for name in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                    fields = line.split()
                    if fields[3] == _LISTENING:
                        known[network][fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return known[network]


def reads(pid: int, terminal: str) -> bool:
    """Is it held up in a read of this terminal?"""
    number, first = _call(pid)
    if number not in _READS:
        return False
    try:
        return os.readlink(f"/proc/{pid}/fd/{first}") in (terminal, "/dev/tty")
    except OSError:
        return False


def waits(pid: int, terminal: str) -> bool:
    """Does it wait for any of several files, and has this terminal open for reading what is typed?"""
    if _call(pid)[0] not in _WAITS:
        return False
    held = files(pid)
    return held.get(0) in (terminal, "/dev/tty") or "/dev/tty" in held.values()


def _call(pid: int) -> tuple[int, int]:
    """The system call that it is in, and its first argument; -1 for none."""
    try:
        fields = Path(f"/proc/{pid}/syscall").read_text().split()
        return int(fields[0]), int(fields[1], 16)
    except (OSError, ValueError, IndexError):
        return -1, -1
