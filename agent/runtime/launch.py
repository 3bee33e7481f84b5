"""One start of an engine: a keeper is told what to run, and watched until the engine serves or has ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import httpx2

from agent.errors import RuntimeFailure
from agent.progress import Phase, Report
from agent.runtime.faults import FAULT_LINES, Fault, explain
from agent.runtime.keeper import Launch
from agent.runtime.lock import is_free, start_time
from agent.runtime.logbook import last_lines
from agent.runtime.probe import health, is_ours, open_client
from agent.runtime.process import reap, spawn_detached
from agent.runtime.record import Ending, Home, Record, read_ending, read_record

POLL = 0.1  # seconds between looks at /health; loading takes 0.1 s (tiny) to minutes (18 GB)
STUCK_AFTER = 60.0  # seconds without a byte read, a byte of memory or a line of log: told to the user
COUNTED = 1 << 30  # bytes; a smaller file is loaded before its figures could be read
GIVE_UP_AFTER = 900.0  # seconds of the same: nothing has ever gone on after that
PORT_TRIES = 3  # another program may take the free port between our look and the engine's bind
LAST_WORDS = 12  # lines shown to the user
WRITTEN_WITHIN = 3.0  # seconds between the end of an engine and its keeper's word about it
ABORTING = 0.5  # seconds from the last word of an engine that breaks off to the closing of its port
DYING = 3.0  # seconds from there to its end: memory has to be given back
ENDING = 25.0  # seconds: GRACE and KILL_WAIT of the keeper's own stop, and its last look


class LaunchFailed(RuntimeFailure):
    """`fault.kind` says what may help."""

    def __init__(self, fault: Fault, last_words: Sequence[str]) -> None:
        super().__init__(fault.sentence, tuple(last_words))
        self.fault = fault


async def launch(
    home: Home,
    command: Callable[[int], Sequence[str]],
    environment: Callable[[str], Mapping[str, str]],
    *,
    model: Path,
    profile: str,
    keep_alive: float,
    report: Report,
) -> Record:
    """Returns once the engine serves and has proved to be ours. `command` makes argv for a port, `environment` the
    variables for a key. Raises LaunchFailed; whatever was started is then gone, as it is when this is cancelled."""
    for _ in range(PORT_TRIES):
        port, key = _free_port(), secrets.token_urlsafe(24)
        told = Launch(tuple(command(port)), dict(environment(key)), port, key, str(model), profile, keep_alive)
        keeper = start_keeper(home, told)
        try:
            record = await _serving(home, told, keeper, report)
            async with open_client(f"http://127.0.0.1:{port}", key, local=True) as client:
                if await is_ours(client, str(model)):
                    return record
        except LaunchFailed as failure:
            if failure.fault.kind != "port":
                raise
        except httpx2.HTTPError as error:
            await end_keeper(home, keeper)
            raise LaunchFailed(
                Fault("", f"The engine does not answer as it should: {error}."), last_lines(home.log, LAST_WORDS)
            ) from error
        except asyncio.CancelledError:
            await end_keeper(home, keeper)
            raise
        await end_keeper(home, keeper)
    raise LaunchFailed(Fault("port", "No free port could be had on 127.0.0.1. Start again."), ())


def start_keeper(home: Home, told: Launch) -> int:
    """The keeper's pid. Raises RuntimeFailure."""
    home.ended.unlink(missing_ok=True)
    argv = [sys.executable, "-P", "-m", "agent.runtime.keeper", str(home.folder)]
    return spawn_detached(
        argv, env=os.environ, said=json.dumps(asdict(told)).encode(), output=home.folder / "keeper.log"
    )


async def end_keeper(home: Home, pid: int) -> None:
    """The engine with it. `pid` must be the keeper's."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ENDING):
            while start_time(pid) is not None:  # noqa: ASYNC110 - not always a child of ours
                await asyncio.sleep(POLL / 4)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # the engine dies with it
    reap(pid)


async def _serving(home: Home, told: Launch, keeper: int, report: Report) -> Record:
    loading = Loading(Path(told.model), home.log)
    async with open_client(f"http://127.0.0.1:{told.port}", told.key, local=True) as client:
        while True:
            record = read_record(home.record)
            if start_time(keeper) is None:
                reap(keeper)
                raise await failed(home, "while loading")
            if record is not None and record.keeper == keeper:
                report(loading.look(record.pid))
                with contextlib.suppress(httpx2.TransportError):
                    if await health(client) == 200:
                        return record
            if loading.silence > GIVE_UP_AFTER:
                minutes = GIVE_UP_AFTER / 60
                stuck = Fault(
                    "", f"The engine has been stuck while loading for {minutes:.0f} minutes; its log is {home.log}."
                )
                raise LaunchFailed(stuck, last_lines(home.log, LAST_WORDS))
            await asyncio.sleep(POLL)


async def ending_of(home: Home) -> Ending:
    """How the engine of this folder ended, as its keeper wrote it down; a keeper that was killed wrote nothing."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WRITTEN_WITHIN):
            while not home.ended.exists() and not is_free(home.keeper_lock):  # noqa: ASYNC110 - another process writes
                await asyncio.sleep(POLL / 4)
    return read_ending(home.ended)


async def failed(home: Home, doing: str, more: str = "", *, ended: bool = True) -> LaunchFailed:
    """Why the engine of this folder ended, or what it complains of. `more`: what it has said elsewhere."""
    ending = await ending_of(home) if ended else Ending(0)
    lines = last_lines(home.log, FAULT_LINES)
    fault = Fault("engine", ending.why) if ending.why else explain([*lines, more], ending.status, doing, home.log)
    return LaunchFailed(fault, lines[-LAST_WORDS:])


class Loading:
    """Tells a slow load from a stuck one: by bytes read, memory taken and lines written."""

    def __init__(self, model: Path, log: Path) -> None:
        self._name, self._log = model.name, log
        self._size = model.stat().st_size if model.is_file() else 0
        self._seen: tuple[int, ...] = ()
        self._moved = time.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since anything moved."""
        return time.monotonic() - self._moved

    def look(self, pid: int) -> Phase:
        """What to tell the user now."""
        resident, read = _memory(pid)
        seen = (resident >> 20, read >> 20, self._log.stat().st_size if self._log.exists() else 0)
        if seen != self._seen:
            self._seen, self._moved = seen, time.monotonic()
        if self.silence > STUCK_AFTER:
            return Phase("load", f"loading {self._name}: nothing has moved for {self.silence:.0f} s", self._name)
        done = min(max(resident, read), self._size)
        total = self._size if self._size >= COUNTED else 0
        return Phase("load", f"loading {self._name}", self._name, done if total else 0, total)


def _memory(pid: int) -> tuple[int, int]:
    """Bytes resident, and bytes read from files, of a process of ours; (0, 0) where the kernel does not say."""
    resident = read = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        resident = pages * os.sysconf("SC_PAGE_SIZE")
        read = int(Path(f"/proc/{pid}/io").read_text().split("rchar:")[1].split()[0])
    return resident, read


async def dying(port: int, record: Record) -> bool:
    """Whether an engine has ended, or is about to: nobody listens any more. One that aborts still does for a moment."""
    until = time.monotonic() + ABORTING
    while record.alive and time.monotonic() < until:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
        except OSError:
            until = max(until, time.monotonic() + DYING)
        await asyncio.sleep(0.02)
    return not record.alive


def running(home: Home) -> Record | None:
    """The engine that a keeper of this folder keeps now, if it is provably ours."""
    if not home.record.exists() or is_free(home.keeper_lock):
        return None
    record = read_record(home.record)
    return record if record is not None and record.alive and record.kept else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
