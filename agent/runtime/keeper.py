"""Keeps one engine running for all windows of this user, and ends it when the last of them has gone.

A program of its own (`python -m agent.runtime.keeper FOLDER`, the launch as JSON on standard input): an engine must
outlive the window that started it, somebody must go on reading what it says, and nothing may be left running when all
windows were killed. Windows hold a shared lock on the lease; the kernel releases it however they end. The engine dies
with its keeper.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.config.jsonfile import write_json
from agent.errors import RuntimeFailure
from agent.runtime.lock import FileLock, start_time
from agent.runtime.logbook import Logbook
from agent.runtime.process import Child
from agent.runtime.record import Home, Record, read_record, write_record

LOOK = 1.0  # seconds between looks whether anybody still uses the engine
LETTING_GO = 5.0  # seconds: the kernel may hold a killed keeper's lock a moment longer than its engine lives
ALREADY_KEPT = 75  # exit status: another keeper holds this folder


@dataclass(frozen=True, slots=True)
class Launch:
    """What a keeper is told. `keep_alive`: minutes after the last window has gone; negative: until it is stopped."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    port: int
    key: str = field(repr=False)
    model: str
    profile: str
    keep_alive: float = 0.0


async def keep(home: Home, launch: Launch) -> int:
    """Returns when the engine has ended. 0: it was stopped; 1: it ended by itself, or never started."""
    with FileLock(home.keeper_lock) as mine:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LETTING_GO):
                while not mine.take() and not _kept(home):  # noqa: ASYNC110 - another process lets go, without a word
                    await asyncio.sleep(LOOK / 20)
        if not mine.held:
            return ALREADY_KEPT
        home.ended.unlink(missing_ok=True)
        log = Logbook(home.log)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stopped.set)
        try:
            child = await Child.start(launch.argv, env=launch.env, on_line=log.add, cwd=home.folder)
        except RuntimeFailure as failure:
            write_json(home.ended, {"status": 127, "why": str(failure)})
            return 1
        ended = loop.create_task(child.wait())
        waiting = [ended, loop.create_task(stopped.wait()), loop.create_task(_unused(home, launch.keep_alive))]
        try:
            if (born := start_time(child.pid)) is not None:
                write_record(home.record, _record(launch, child.pid, born))
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            by_itself = ended.done()
        finally:
            await child.stop()
            for task in waiting[1:]:
                task.cancel()
            home.record.unlink(missing_ok=True)
            home.keep.unlink(missing_ok=True)
        write_json(home.ended, {"status": await ended, "by_itself": by_itself})
        log.close()
        return 1 if by_itself else 0


def _kept(home: Home) -> bool:
    record = read_record(home.record)
    return record is not None and record.kept


async def _unused(home: Home, keep_alive: float) -> None:
    """Returns once nobody has held the lease for `keep_alive` minutes; holds it then, so that no window that comes now
    takes the engine for usable."""
    if keep_alive < 0:
        await asyncio.Event().wait()
    lease, since = FileLock(home.lease), time.monotonic()
    while True:
        await asyncio.sleep(LOOK)
        if not lease.take():
            since = time.monotonic()
        elif time.monotonic() - since >= keep_alive * 60 and not home.keep.exists():
            return
        else:
            lease.release()


def _record(launch: Launch, pid: int, born: int) -> Record:
    me = os.getpid()
    return Record(
        pid,
        born,
        me,
        start_time(me) or 0,
        launch.port,
        launch.key,
        launch.model,
        launch.profile,
        time.time(),
        launch.keep_alive,
    )


def main() -> int:
    home = Home(Path(sys.argv[1]))
    told: dict[str, Any] = json.load(sys.stdin)
    told["argv"] = tuple(told["argv"])
    launch = Launch(**told)
    with contextlib.suppress(OSError):
        return asyncio.run(keep(home, launch))
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
