"""Runs shell commands so that nothing they start is lost sight of. Knows processes, not what the output means.

We are the reaper of our orphans, so whatever a command starts stays below us in the process tree. There it is told from
the product's own helpers (the engine, MCP servers) by what it inherited: a mark in the environment, the session, or an
open file that only that command was given. What has shed all three is nobody we know, and is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MARK = "DFLASH_COMMAND"
READ_SIZE = 65536
QUIET = 0.3  # seconds for what a finished command left in the pipe; it holds 64 KiB, read in a millisecond
GRACE = 2.0  # seconds between TERM and KILL after a time-out
CANCEL_GRACE = 0.4  # the same when the user waits for the prompt
KILLED = 1.0  # seconds in which KILL has to work, and new forks are still hunted
POLL = 0.03
PR_SET_CHILD_SUBREAPER = 36


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


@dataclass(frozen=True, slots=True)
class Ended:
    """`status`: -N for signal N. `why`: "", "timeout" or "output". `left`: what still runs, and `heard`: its output
    still comes in. `unkillable`: what survived KILL."""

    status: int
    why: str
    left: tuple[Proc, ...] = ()
    heard: bool = False
    unkillable: tuple[Proc, ...] = ()


@dataclass(slots=True)
class _Running:
    """One command and its offspring. `tether`: inode of the pipe that only its processes hold open. `known`: pid and
    start of all that were ever seen to belong to it."""

    mark: str
    tether: int
    session: int = 0
    known: dict[int, int] = field(default_factory=dict[int, int])

    def members(self, table: Mapping[int, Proc]) -> tuple[Proc, ...]:
        """What is alive of it. Dead orphans are reaped on the way; the shell itself is reaped by asyncio."""
        me = os.getpid()
        found = {p.pid for p in table.values() if self._owns(p)}
        while grown := {p.pid for p in table.values() if p.parent in found} - found:
            found |= grown
        for pid in found:
            self.known[pid] = table[pid].start
            if table[pid].state == "Z" and table[pid].parent == me and pid != self.session:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return tuple(table[pid] for pid in sorted(found) if table[pid].alive)

    def _owns(self, proc: Proc) -> bool:
        if proc.session == self.session or self.known.get(proc.pid) == proc.start:
            return True
        return proc.alive and (_has_mark(proc.pid, self.mark) or _holds(proc.pid, self.tether))


class ProcessBook:
    """Every command that runs, and what commands that are over have left running. `stop_all` ends it all."""

    def __init__(self) -> None:
        self._running: list[_Running] = []
        self._pumps: set[asyncio.Task[bool]] = set()
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    async def run(
        self, command: str, *, cwd: Path, env: Mapping[str, str], timeout: float, on_output: Callable[[bytes], bool]
    ) -> Ended:
        """`on_output` returns False when it has had enough: a running command is stopped, one that is over loses its
        pipe. It may still be called after the return, for what was left running, and gets b"" once, at the very end.
        Raises OSError when bash cannot be started. When cancelled, all that the command started is ended first."""
        deadline = time.monotonic() + timeout
        running, process, pump = await self._start(command, cwd, env, on_output)
        waiting = asyncio.get_running_loop().create_task(process.wait())
        try:
            await asyncio.wait({pump, waiting}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if pump.done() and pump.result() and not waiting.done():  # closed its output, but still runs
                await asyncio.wait({waiting}, timeout=max(0.0, deadline - time.monotonic()))
            why = "" if waiting.done() else "output" if pump.done() and not pump.result() else "timeout"
            if why:
                unkillable = await _end(lambda: self._members([running]), GRACE)
                await asyncio.wait({waiting}, timeout=GRACE)
                await asyncio.wait({pump}, timeout=QUIET)
                return Ended(process.returncode if process.returncode is not None else -9, why, unkillable=unkillable)
            # What is still in the pipe is the command's own. A background child may hold the pipe open for ever, so its
            # end is not waited for; the pump goes on, or the child would die of the closed pipe.
            await asyncio.wait({pump}, timeout=QUIET)
            left = self._members([running])
            if left:  # a process that ends closes its files a moment before it is dead
                await asyncio.sleep(POLL)
                left = self._members([running])
            return Ended(waiting.result(), "", left, heard=bool(left) and not pump.done())
        except asyncio.CancelledError:
            ending = asyncio.ensure_future(_end(lambda: self._members([running]), CANCEL_GRACE))
            while not ending.done():  # an impatient second cancellation must not leave the rest alive
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(ending)
            raise
        finally:
            waiting.cancel()
            if not self._members([running]):
                pump.cancel()
            self.left()

    async def _start(
        self, command: str, cwd: Path, env: Mapping[str, str], on_output: Callable[[bytes], bool]
    ) -> tuple[_Running, asyncio.subprocess.Process, asyncio.Task[bool]]:
        read_end, write_end = os.pipe()
        hold_read, hold_write = os.pipe()
        running = _Running(uuid.uuid4().hex, os.fstat(hold_write).st_ino)
        try:
            process = await asyncio.create_subprocess_exec(
                *("bash", "-c", command),
                cwd=cwd,
                env={**env, MARK: running.mark},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
                pass_fds=(hold_write,),
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            for descriptor in (write_end, hold_read, hold_write):
                os.close(descriptor)
        running.session = process.pid
        self._running.append(running)
        pump = asyncio.get_running_loop().create_task(_pump(read_end, on_output))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        return running, process, pump

    def _members(self, of: Iterable[_Running]) -> tuple[Proc, ...]:
        table = _below_us()
        return tuple({p.pid: p for running in of for p in running.members(table)}.values())

    def left(self) -> tuple[Proc, ...]:
        """All that runs now. Commands with nothing alive are forgotten."""
        table = _below_us()
        alive = [(r, r.members(table)) for r in self._running]
        self._running = [r for r, members in alive if members]
        return tuple(p for _, members in alive for p in members)

    async def stop_all(self) -> tuple[Proc, ...]:
        """Returns what could not be stopped."""
        remaining = await _end(lambda: self._members(self._running), GRACE)
        self.left()
        pumps = tuple(self._pumps)
        if pumps:
            await asyncio.wait(pumps, timeout=QUIET)
        for pump in pumps:
            pump.cancel()
        return remaining


async def _end(find: Callable[[], tuple[Proc, ...]], grace: float) -> tuple[Proc, ...]:
    """TERM to each, wait, KILL; looks again all the time, since a dying process may fork. Returns what is still there.
    A pid that now belongs to another process is left alone."""
    asked: set[tuple[int, int]] = set()
    empty = 0
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, KILLED)):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            remaining = find()
            empty = 0 if remaining else empty + 1
            if empty > 1:  # twice, as a fork between the reading of two entries is not in the first table
                return ()
            for proc in remaining:
                if number == signal.SIGKILL or (proc.pid, proc.start) not in asked:
                    asked.add((proc.pid, proc.start))
                    _send(proc, number)
            await asyncio.sleep(POLL if remaining else 0)
    return find()


def _send(proc: Proc, number: int) -> None:
    if (now := _read(proc.pid)) and now.start == proc.start:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(proc.pid, number)
            if number == signal.SIGTERM:
                os.kill(proc.pid, signal.SIGCONT)  # a stopped process would not hear of it


async def _pump(read_end: int, on_output: Callable[[bytes], bool]) -> bool:
    """False when the reader had enough."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(read_end, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while data := await reader.read(READ_SIZE):
            if not on_output(data):
                return False
        return True
    finally:
        transport.close()
        on_output(b"")


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _holds(pid: int, inode: int) -> bool:
    name = f"pipe:[{inode}]"
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(entry.path) == name:
                    return True
    return False


def _below_us() -> dict[int, Proc]:
    """All processes that descend from this one, without itself."""
    table = {p.pid: p for e in os.listdir("/proc") if e.isdigit() and (p := _read(int(e)))}
    children: dict[int, list[Proc]] = {}
    for proc in table.values():
        children.setdefault(proc.parent, []).append(proc)
    found: dict[int, Proc] = {}
    todo = [os.getpid()]
    while todo:
        for proc in children.get(todo.pop(), ()):
            if proc.pid not in found:
                found[proc.pid] = proc
                todo.append(proc.pid)
    return found


def _read(pid: int) -> Proc | None:
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None
    fields = tail.split()
    return Proc(pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0], command or head.partition("(")[2])
