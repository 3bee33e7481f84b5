"""What the bash tool costs against a plain subprocess, and what a flood of output does to time and memory.

Prints the median time and the mean processor time of a small command both ways, and for 1 GB of output the seconds and
the growth of this process's peak memory, beside what the same command takes into a terminal that is only read. The
processor time (of this process and of what it started) says more than the clock on a machine that is not quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import statistics
import subprocess
import tempfile
import time
import tty
from pathlib import Path

from agent.messages import ToolOutput
from agent.protocols import ToolContext
from agent.tools.bash import Bash
from agent.tools.jobs import ProcessBook
from agent.workspace.paths import Workspace

SMALL = "true; echo hi"


def ignore(_text: str) -> None:
    pass


async def run(tool: Bash, command: str) -> tuple[float, ToolOutput]:
    params = tool.params(command=command, timeout=600)
    began = time.perf_counter()
    output = await tool.run(params, ToolContext("bench", tool.plan(params), ignore))
    return time.perf_counter() - began, output


def plain(command: str) -> float:
    began = time.perf_counter()
    subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - began


async def small(tool: Bash, calls: int) -> list[tuple[str, list[tuple[float, float]]]]:
    """Seconds by the clock and of the processor, in turns."""
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(calls):
        began = cpu()
        seconds, _ = await run(tool, SMALL)
        between = cpu()
        ours.append((seconds, between - began))
        theirs.append((plain(SMALL), cpu() - between))
    return [("through the tool", ours), ("by a plain bash -c", theirs)]


def into_a_terminal(command: str) -> float:
    began = time.perf_counter()
    master, slave = os.openpty()
    tty.setraw(slave)
    with subprocess.Popen(["bash", "-c", command], stdout=slave):
        os.close(slave)
        with contextlib.suppress(OSError):  # the kernel's word for a terminal that nobody holds
            while os.read(master, 65_536):
                pass
    os.close(master)
    return time.perf_counter() - began


def cpu() -> float:
    """Seconds of this process and of all that it has seen end."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def peak() -> float:
    """MB"""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="small commands each way")
    parser.add_argument("--bytes", type=int, default=10**9, help="of the flood")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "project").mkdir()
        book = ProcessBook()
        tool = Bash(Workspace(base / "project"), os.environ, base / "logs", book)
        await run(tool, SMALL)
        for name, times in await small(tool, arguments.calls):
            clock, processor = statistics.median(t for t, _ in times), statistics.mean(c for _, c in times)
            print(f"small command, {name}: {clock * 1000:.1f} ms, {processor * 1000:.1f} ms of processor time")
        for name, command in (
            ("lines of 80", f"yes {'x' * 79} | head -c {arguments.bytes}"),
            ("one line", f"head -c {arguments.bytes} /dev/zero | tr '\\0' x"),
        ):
            before, began = peak(), cpu()
            seconds, output = await run(tool, command)
            assert output.text.endswith("[exit status 0]"), output.text[-200:]
            grown, ended = peak() - before, cpu()
            bare = into_a_terminal(command)
            print(
                f"{arguments.bytes / 1e9:g} GB, {name}: {seconds:.1f} s, {ended - began:.1f} s of processor time, "
                f"{grown:.0f} MB more memory at the peak; a terminal that is only read: {bare:.1f} s, "
                f"{cpu() - ended:.1f} s of processor time"
            )
        await book.stop_all()


if __name__ == "__main__":
    asyncio.run(main())
