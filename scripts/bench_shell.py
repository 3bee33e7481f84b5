"""What the bash tool costs against a plain subprocess, and what a flood of output does to time and memory.

Prints the median time of a small command both ways, taken in turns, and for 1 GB of output the seconds and the growth
of this process's peak memory, beside what the same command takes into a terminal that is only read.
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
        both = [((await run(tool, SMALL))[0], plain(SMALL)) for _ in range(arguments.calls)]
        ours, theirs = (statistics.median(column) * 1000 for column in zip(*both, strict=True))
        print(f"small command: {ours:.1f} ms through the tool, {theirs:.1f} ms plain, {ours - theirs:.1f} ms more")
        for name, command in (
            ("lines of 80", f"yes {'x' * 79} | head -c {arguments.bytes}"),
            ("one line", f"head -c {arguments.bytes} /dev/zero | tr '\\0' x"),
        ):
            before = peak()
            seconds, output = await run(tool, command)
            assert output.text.endswith("[exit status 0]"), output.text[-200:]
            bare = into_a_terminal(command)
            print(
                f"{arguments.bytes / 1e9:g} GB, {name}: {seconds:.1f} s, a terminal that is only read {bare:.1f} s; "
                f"{peak() - before:.0f} MB more memory at the peak"
            )
        await book.stop_all()


if __name__ == "__main__":
    asyncio.run(main())
