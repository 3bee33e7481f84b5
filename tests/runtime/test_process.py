"""Child processes, with real shells."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from agent.errors import RuntimeFailure
from agent.runtime.process import LINE_LIMIT, Child, Lines, run_lines


async def _gone(pid: int) -> None:
    """Until the kernel has let go of it; a zombie that somebody else has to reap counts as gone."""
    async with asyncio.timeout(10):
        while (stat := Path(f"/proc/{pid}/stat")).exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z":
            await asyncio.sleep(0)


async def test_both_outputs_arrive_line_by_line_with_the_status() -> None:
    lines: list[str] = []
    status = await run_lines(
        ["sh", "-c", "echo one; echo two >&2; printf 'a\\rb'; exit 3"], env=os.environ, on_line=lines.append
    )
    assert (status, lines) == (3, ["one", "two", "a", "b"])


def test_lines_are_cut_decoded_with_replacement_and_never_empty() -> None:
    lines: list[str] = []
    cutter = Lines(lines.append)
    for piece in (b"\xff\r", b"\n\n", b"x" * LINE_LIMIT, b"y" * 100_000, b"\nlast"):
        cutter.feed(piece)
    cutter.close()
    assert lines == ["\ufffd", "x" * LINE_LIMIT + " …", "last"]


async def test_a_program_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(RuntimeFailure, match="Cannot start /no/such"):
        await run_lines(["/no/such"], env={}, on_line=print)


async def test_cancelling_ends_the_whole_family() -> None:
    pids: asyncio.Queue[str] = asyncio.Queue()
    script = "sleep 100 & echo $!; echo $$; wait"
    task = asyncio.create_task(run_lines(["sh", "-c", script], env=os.environ, on_line=pids.put_nowait))
    family = [int(await pids.get()), int(await pids.get())]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for pid in family:
        await _gone(pid)


async def test_one_that_ignores_the_request_to_end_is_killed() -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    script = "trap '' TERM; echo up; while :; do sleep 100; done"
    child = await Child.start(["sh", "-c", script], env=os.environ, on_line=said.put_nowait)
    assert await said.get() == "up" and child.alive
    await child.stop(grace=0.1)
    assert child.returncode == -signal.SIGKILL and not child.alive


async def test_a_descendant_that_holds_the_pipe_does_not_hold_us() -> None:
    lines: list[str] = []
    assert await run_lines(["sh", "-c", "(setsid sleep 5 &); echo done"], env=os.environ, on_line=lines.append) == 0
    assert lines == ["done"]


async def test_a_child_dies_with_its_parent_even_if_that_is_killed() -> None:
    code = (
        "import asyncio, os\nfrom agent.runtime.process import Child\nasync def main():\n"
        "    child = await Child.start(['sleep', '100'], env=os.environ, on_line=print)\n"
        "    print(child.pid, flush=True)\n    await child.wait()\nasyncio.run(main())\n"
    )
    said: asyncio.Queue[str] = asyncio.Queue()
    parent = await Child.start([sys.executable, "-c", code], env=os.environ, on_line=said.put_nowait)
    grandchild = int(await said.get())
    os.kill(parent.pid, signal.SIGKILL)
    await _gone(grandchild)
    await parent.stop()
