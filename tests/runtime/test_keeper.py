"""The keeper as a process of its own, with a shell in the engine's place."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from agent.runtime.keeper import ALREADY_KEPT, Launch
from agent.runtime.lock import FileLock, is_free, start_time
from agent.runtime.process import reap, spawn_detached
from agent.runtime.record import Ending, Home, read_ending, read_record


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "engine")


@pytest.fixture
def keep(home: Home) -> Iterator[Callable[..., int]]:
    """Starts a keeper whose engine is a line of shell; killed at the end."""
    pids: list[int] = []
    home.folder.mkdir(parents=True)

    def start(script: str, keep_alive: float = 0.0) -> int:
        launch = Launch(("sh", "-c", script), dict(os.environ), 1234, "secret", "m.gguf", "p", keep_alive)
        argv = [sys.executable, "-P", "-m", "agent.runtime.keeper", str(home.folder)]
        said = json.dumps(asdict(launch)).encode()
        pids.append(spawn_detached(argv, env=os.environ, said=said, output=home.folder / "keeper.log"))
        return pids[-1]

    yield start
    for pid in pids:
        if start_time(pid) is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        else:
            reap(pid)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def open_files(pid: int) -> list[str]:
    names: list[str] = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(file))
    return names


async def test_it_writes_down_who_runs_and_forgets_it_when_it_ends(home: Home, keep: Callable[..., int]) -> None:
    lease = FileLock(home.lease, shared=True)
    assert lease.take()
    pid = keep("echo hello; exec sleep 100")
    await until(lambda: read_record(home.record))
    record = read_record(home.record)
    assert (
        record
        and record.alive
        and record.kept
        and record.keeper == pid
        and (record.port, record.key) == (1234, "secret")
    )
    assert home.record.stat().st_mode & 0o777 == 0o600
    assert not is_free(home.keeper_lock)
    os.kill(pid, signal.SIGTERM)
    await until(lambda: start_time(pid) is None)
    assert not record.alive and not home.record.exists() and is_free(home.keeper_lock)
    assert home.log.read_text() == "hello\n"


async def test_the_engine_ends_when_the_last_window_has_gone(home: Home, keep: Callable[..., int]) -> None:
    one, two = FileLock(home.lease, shared=True), FileLock(home.lease, shared=True)
    assert one.take() and two.take()
    pid = keep("exec sleep 100")
    await until(lambda: read_record(home.record))
    record = read_record(home.record)
    one.release()
    assert record and record.alive
    two.release()
    await until(lambda: start_time(pid) is None)
    assert not record.alive


async def test_an_engine_without_a_lease_stays_while_it_is_to_be_kept(home: Home, keep: Callable[..., int]) -> None:
    pid = keep("exec sleep 100", keep_alive=-1)
    await until(lambda: read_record(home.record))
    assert FileLock(home.lease).take()  # nobody holds it, nor does the keeper
    assert start_time(pid) is not None


async def test_how_an_engine_ended_is_written_down(home: Home, keep: Callable[..., int]) -> None:
    pid = keep("echo last words; kill -11 $$", keep_alive=-1)
    await until(home.ended.exists)
    assert read_ending(home.ended) == Ending(-11, "", True)
    await until(lambda: start_time(pid) is None)
    assert home.log.read_text() == "last words\n"


async def test_the_engine_dies_with_its_keeper(home: Home, keep: Callable[..., int]) -> None:
    pid = keep("exec sleep 100", keep_alive=-1)
    await until(lambda: read_record(home.record))
    record = read_record(home.record)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: record and not record.alive)
    await until(lambda: is_free(home.keeper_lock))
    assert read_record(home.record) == record  # stale, and known for it
    assert record and not record.kept


async def test_one_folder_has_one_keeper(home: Home, keep: Callable[..., int]) -> None:
    first = keep("exec sleep 100", keep_alive=-1)
    await until(lambda: read_record(home.record))
    second = keep("exec sleep 100", keep_alive=-1)
    status = await asyncio.to_thread(os.waitpid, second, 0)
    assert os.waitstatus_to_exitcode(status[1]) == ALREADY_KEPT
    record = read_record(home.record)
    assert record and record.keeper == first and record.alive


async def test_a_keeper_waits_for_a_lock_that_its_dead_predecessor_still_holds(
    home: Home, keep: Callable[..., int]
) -> None:
    dying = FileLock(home.keeper_lock)
    assert dying.take()
    pid = keep("exec sleep 100", keep_alive=-1)
    await until(lambda: any("eventpoll" in name for name in open_files(pid)))  # it runs, and asks for the lock
    dying.release()
    await until(lambda: read_record(home.record))
    assert start_time(pid) is not None


def test_a_record_that_is_rubbish_is_none(tmp_path: Path) -> None:
    file = tmp_path / "engine.json"
    assert read_record(file) is None
    for rubbish in ("", "[]", "{}", '{"pid": "x"}', '{"pid": 1', "null", "\x00"):
        file.write_text(rubbish)
        assert read_record(file) is None
        assert read_ending(file) == Ending()


def test_a_pid_that_was_given_out_again_is_not_the_engine() -> None:
    mine = start_time(os.getpid())
    assert mine and start_time(os.getpid()) == mine
    assert start_time(2**22 + 1) is None
