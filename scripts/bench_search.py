#!/usr/bin/env python3
"""What the search tools cost against plain ripgrep, on a tree of 100,000 files made for it. Prints medians in seconds
and their ratio to `rg` doing the same in the same run. `python scripts/bench_search.py [FILES] [RUNS]`."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from agent.protocols import ToolContext
from agent.tools.search import Glob, Grep, List
from agent.workspace.paths import Workspace
from agent.workspace.search import ripgrep


def make(root: Path, files: int) -> None:
    for n in range(files):
        folder = root / f"pkg{n // 1000}" / f"mod{n // 50 % 20}"
        if n % 50 == 0:
            folder.mkdir(parents=True, exist_ok=True)
        word = "needle" if n % 1000 == 0 else "hay"
        (folder / f"file{n}.{'py' if n % 10 == 0 else 'txt'}").write_text(f"def f{n}():\n    return '{word}'\n" * 5)


async def median(runs: int, work: Callable[[], Awaitable[Any]]) -> float:
    await work()  # the disk's cache is warm for everyone
    times: list[float] = []
    for _ in range(runs):
        started = time.perf_counter()
        await work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


async def main(files: int, runs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        make(root, files)
        workspace = Workspace(root)

        def tool(one: Any, **arguments: str) -> Callable[[], Awaitable[Any]]:
            params = one.params(**arguments)
            return lambda: one.run(params, ToolContext("bench", one.plan(params), lambda text: None))

        async def rg(*arguments: str) -> None:
            await asyncio.to_thread(subprocess.run, [ripgrep(), *arguments], cwd=root, capture_output=True, check=False)

        rows = [
            ("grep needle", tool(Grep(workspace, lambda path: False), pattern="needle"), ("-n", "needle", ".")),
            ("grep def (a flood)", tool(Grep(workspace, lambda path: False), pattern="def"), ("-n", "def", ".")),
            ("glob **/*.py", tool(Glob(workspace), pattern="**/*.py"), ("--files", "-g", "**/*.py")),
            ("glob **/*7.txt", tool(Glob(workspace), pattern="**/*7.txt"), ("--files", "-g", "**/*7.txt")),
            ("list", tool(List(workspace)), ("--files",)),
        ]
        print(f"{files:,} files, median of {runs}")
        for label, ours, theirs in rows:
            mine = await median(runs, ours)
            plain = await median(runs, lambda theirs=theirs: rg(*theirs))
            print(f"{label:<20} {mine:6.2f} s   rg {plain:6.2f} s   {mine / plain:.2f} x")


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    asyncio.run(main(*(given + [100_000, 5][len(given) :])))
