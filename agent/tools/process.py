"""Runs shell commands so that nothing they start is lost sight of. Knows processes, not what the output means.

A command's processes are known by a mark in their environment, by its session, and, when they have shed both, by having
become our own children: we are the reaper of our orphans.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MARK = "DFLASH_COMMAND"
READ_SIZE = 65536
QUIET = 0.3  # seconds for what a finished command left in the pipe; it holds 64 KiB, read in a millisecond
GRACE = 2.0  # seconds between TERM and KILL after a time-out
CANCEL_GRACE = 0.4  # the same when the user waits for the prompt
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


@dataclass(frozen=True, slots=True)
class Ended:
    """`status`: -N for signal N. `why`: "", "timeout" or "output". `left`: what still runs; `unkillable`: what
    survived KILL."""

    status: int
    why: str
    left: tuple[Proc, ...]
    unkillable: tuple[Proc, ...] = ()


class ProcessBook:
    """All that commands of this run have left behind. `stop_all` ends it."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._adopted: dict[int, int] = {}  # pid -> start
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    async def run(
        self, command: str, *, cwd: Path, env: Mapping[str, str], timeout: float, on_output: Callable[[bytes], bool]
    ) -> Ended:
        """`on_output` returns False to have the command stopped. Raises OSError when bash cannot be started. When
        cancelled, all that the command started is ended first."""
        mark = f"{self._mark}-{uuid.uuid4().hex[:8]}"
        before = {p.pid for p in _children()}
        read_end, write_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *("bash", "-c", command),
                cwd=cwd,
                env={**env, MARK: mark},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        pump = asyncio.get_running_loop().create_task(_pump(read_end, on_output))
        waiting = asyncio.get_running_loop().create_task(process.wait())
        try:
            done, _ = await asyncio.wait({pump, waiting}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if pump in done and pump.result() and waiting not in done:  # closed its output, but still runs
                done, _ = await asyncio.wait({waiting}, timeout=timeout)
            why = "" if waiting in done else "output" if pump.done() and not pump.result() else "timeout"
            if not why:
                await _quiet(pump)
            left = self._of(mark, process.pid, before)
            if why:
                unkillable = await end(left, GRACE)
                await asyncio.wait({waiting}, timeout=GRACE)
                return Ended(process.returncode if process.returncode is not None else -9, why, (), unkillable)
            for proc in left:
                self._adopted[proc.pid] = proc.start
            return Ended(waiting.result(), why, left)
        except asyncio.CancelledError:
            await end(self._of(mark, process.pid, before), CANCEL_GRACE)
            raise
        finally:
            pump.cancel()
            waiting.cancel()

    def left(self) -> tuple[Proc, ...]:
        """What commands that are over have left running."""
        table = _table()
        return tuple(p for p in table.values() if _alive(p) and self._adopted.get(p.pid) == p.start)

    async def stop_all(self) -> None:
        roots = {p.pid for p in self.left()}
        await end(_with_descendants(_table(), roots | _marked(self._mark)), GRACE)

    def _of(self, mark: str, session: int, before: set[int]) -> tuple[Proc, ...]:
        table = _table()
        roots = _marked(mark) | {p.pid for p in table.values() if p.session == session}
        # Orphans that shed the mark and the session came to us. Our own helpers (the engine, MCP servers) are session
        # leaders from their first moment and existed before.
        roots |= {p.pid for p in _children() if p.pid not in before and p.pid != session and p.session != os.getsid(0)}
        return tuple(p for p in _with_descendants(table, roots) if _alive(p))


async def end(procs: Iterable[Proc], grace: float) -> tuple[Proc, ...]:
    """TERM, wait, KILL; returns what is still there. A pid that now belongs to another process is left alone."""
    remaining = tuple(procs)
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 1.0)):
        for proc in remaining:
            if (now := _read(proc.pid)) and now.start == proc.start:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(proc.pid, number)
        for _ in range(int(seconds / POLL)):
            remaining = tuple(p for p in remaining if (now := _read(p.pid)) and now.start == p.start and _alive(now))
            if not remaining:
                return ()
            await asyncio.sleep(POLL)
    return remaining


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


async def _quiet(pump: asyncio.Task[bool]) -> None:
    """The command is over; what is still in the pipe is its own. A background child may hold the pipe open for ever, so
    the end of the stream is not waited for."""
    await asyncio.wait({pump}, timeout=QUIET)


def _marked(mark: str) -> set[int]:
    found: set[int] = set()
    needle = f"{MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if needle in Path(f"/proc/{entry}/environ").read_bytes():
                    found.add(int(entry))
    return found


def _children() -> list[Proc]:
    me = os.getpid()
    found: list[Proc] = []
    for proc in _table().values():
        if proc.parent != me:
            continue
        if proc.state == "Z" and proc.session != os.getsid(0):
            continue
        found.append(proc)
    return found


def _with_descendants(table: Mapping[int, Proc], roots: set[int]) -> tuple[Proc, ...]:
    found = set(roots)
    grew = True
    while grew:
        grew = False
        for proc in table.values():
            if proc.parent in found and proc.pid not in found:
                found.add(proc.pid)
                grew = True
    return tuple(table[pid] for pid in sorted(found - {os.getpid()}) if pid in table)


def _table() -> dict[int, Proc]:
    return {p.pid: p for e in os.listdir("/proc") if e.isdigit() and (p := _read(int(e)))}


def _read(pid: int) -> Proc | None:
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None
    fields = tail.split()
    return Proc(pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0], command or head.partition("(")[2])


def _alive(proc: Proc) -> bool:
    return proc.state not in "ZX"
