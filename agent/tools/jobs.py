"""Every command that runs, and what commands that are over have left running: all of it can be listed and ended. Knows
processes, not what the output means."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from agent.errors import ToolFailure
from agent.protocols import Process
from agent.tools import proc
from agent.tools.job import KILLED, MARK, Job
from agent.tools.output import Output
from agent.tools.proc import Proc
from agent.tools.terminal import Terminal
from agent.tools.watch import Watch

GRACE = 2.0  # seconds between TERM and KILL
CANCEL_GRACE = 0.4  # the same when the user waits for the prompt
POLL = 0.03
LINGER = 0.3  # seconds that what a finished command leaves may take to end, before it is called left
LOOK_EVERY = 1.0  # seconds between two looks at what runs in the background
REMEMBERED = 50  # jobs whose output can still be read when they are over
SHOWN = 8  # processes that are named where there are many
PR_SET_CHILD_SUBREAPER = 36


class ProcessBook:
    """All jobs. `on_change` hears what runs in the background, and what asks for input, when that has changed."""

    def __init__(self) -> None:
        self.on_change: Callable[[tuple[Process, ...]], None] = lambda running: None
        self._jobs: dict[str, Job] = {}
        self._numbers = count(1)
        self._looking: asyncio.Task[None] | None = None
        self._shown: tuple[Process, ...] = ()
        self._news: list[Job] = []
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def start(
        self, command: str, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], mark: str, output: Output
    ) -> Job:
        """Raises OSError when it cannot be started."""
        terminal = Terminal(argv, cwd, {**env, MARK: mark}, mark, output.add)
        job = Job(next(self._numbers), command, terminal, output)
        self._jobs[job.id] = job
        return job

    def forget(self, job: Job) -> None:
        """It is over, and there is nothing to be read that has not been told."""
        self._jobs.pop(job.id, None)

    def find(self, name: str) -> Job | None:
        """By its number, or by the pid of one of its processes."""
        wanted = name.strip()
        return self._jobs.get(wanted) or next((j for j in self.running() if wanted in map(str, j.pids)), None)

    def running(self) -> tuple[Job, ...]:
        return tuple(j for j in self._jobs.values() if not j.gone)

    def list(self) -> tuple[Process, ...]:
        """What runs in the background, and what waits for the user's input."""
        return tuple(_seen(j) for j in self.running() if j.background or j.asks is not None)

    def type_into(self, process_id: str, text: str) -> bool:
        """What the user types. False where it can no longer be read."""
        job = self._jobs.get(process_id)
        if job is None or job.gone:
            return False
        try:
            job.type(text)
        except OSError:
            return False
        self.publish()
        return True

    # ---- looking
    def left(self) -> tuple[Proc, ...]:
        """All that runs now."""
        table = proc.quick_descendants()
        return tuple(p for job in self.running() for p in job.members(table))

    def look(self, job: Job) -> tuple[Proc, ...]:
        """What is alive of one job."""
        return job.members(proc.quick_descendants())

    async def outlives(self, job: Job) -> bool:
        """Does anything that it has started go on, now that the command is over? What is about to end may do so."""
        until = time.monotonic() + LINGER
        while self.look(job) or self.look(job):
            if time.monotonic() > until:
                return True
            await asyncio.sleep(POLL)
        return False

    def publish(self) -> None:
        shown = self.list()
        if shown != self._shown:
            self._shown = shown
            self.on_change(shown)

    def listen(self, job: Job, waits: bool) -> None:
        """It waits for the user, or no longer does."""
        asks = job.last_lines() if waits else None
        if asks != job.asks:
            job.asks = asks
            self.publish()

    def keep(self, job: Job) -> None:
        """It goes on in the background."""
        job.background = True
        job.ports = _ports(job)
        self.publish()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_after())

    async def _look_after(self) -> None:
        while kept := [j for j in self.running() if j.background]:
            await asyncio.sleep(LOOK_EVERY)
            table = proc.quick_descendants()
            for job in kept:
                if job.terminal.flooded.is_set() and not job.gone:
                    job.why = "output"
                    await self.end(job)
                elif not job.members(table) and not self.look(job) and not job.gone:
                    await job.finish()
                    self._news.append(job)
                else:
                    job.ports = _ports(job)
                    self.listen(job, Watch(job).look(time.monotonic()) == "input")
            self.publish()
        self._trim()

    def _trim(self) -> None:
        over = [j for j in self._jobs.values() if j.gone]
        for job in over[: max(0, len(over) - REMEMBERED)]:
            self.forget(job)

    def news(self) -> tuple[Job, ...]:
        """What has ended by itself in the background; each is told once."""
        news, self._news = tuple(self._news), []
        return news

    def heard(self, job: Job) -> None:
        """Its end has been told."""
        self._news = [j for j in self._news if j is not job]

    # ---- ending
    async def end(self, job: Job, grace: float = GRACE) -> tuple[Proc, ...]:
        """TERM, then KILL, for all of it. Returns what could not be stopped. A cancellation waits for it."""
        return await _to_its_end(self._stop([job], grace))

    async def stop(self, process_id: str) -> str:
        """By id, for the user. Raises ToolFailure."""
        job = self.find(process_id)
        if job is None or job.gone:
            known = ", ".join(f"{j.id} ({j.title})" for j in self.running())
            raise ToolFailure(f"No process {process_id!r} runs. " + (f"There are: {known}." if known else ""))
        pids = ", ".join(map(str, job.pids))
        if remaining := await self.end(job):
            raise ToolFailure(f"Could not be stopped: {named(remaining)}.")
        return f"Stopped {job.id} ({job.title}), pid {pids}."

    async def stop_all(self) -> tuple[Proc, ...]:
        """Returns what could not be stopped."""
        remaining = await _to_its_end(self._stop(self.running(), GRACE))
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        return remaining

    async def _stop(self, jobs: Iterable[Job], grace: float) -> tuple[Proc, ...]:
        jobs = [j for j in jobs if not j.gone]

        def find() -> tuple[Proc, ...]:
            table = proc.descendants()
            return tuple({p.pid: p for job in jobs for p in job.members(table)}.values())

        remaining = await _end(find, grace)
        for job in jobs:
            if not job.gone:
                await job.finish()
        self.publish()
        return remaining


def named(processes: Sequence[Proc]) -> str:
    shown = ", ".join(f"{p.pid} ({p.command[:60]})" for p in processes[:SHOWN])
    return f"{shown} and {len(processes) - SHOWN} more" if len(processes) > SHOWN else shown


def new_mark() -> str:
    return uuid.uuid4().hex


def _seen(job: Job) -> Process:
    keys, hidden = job.terminal.keys() if job.asks is not None else (False, False)
    return Process(job.id, job.title, job.pids, job.ports, job.asks, keys, hidden and not keys)


def _ports(job: Job) -> tuple[int, ...]:
    return tuple(sorted({port for ports in proc.ports(job.pids).values() for port in ports}))


async def _to_its_end(work: Coroutine[Any, Any, tuple[Proc, ...]]) -> tuple[Proc, ...]:
    """An impatient cancellation must not leave the rest alive; it comes into force afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return task.result()


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
            for process in remaining:
                if number == signal.SIGKILL or (process.pid, process.start) not in asked:
                    asked.add((process.pid, process.start))
                    _send(process, number)
            await asyncio.sleep(POLL if remaining else 0)
    return find()


def _send(process: Proc, number: int) -> None:
    if (now := proc.read(process.pid)) and now.start == process.start:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
            if number == signal.SIGTERM:
                os.kill(process.pid, signal.SIGCONT)  # a stopped process would not hear of it
