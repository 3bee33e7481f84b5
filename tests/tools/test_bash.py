"""The bash tool against real shells and real processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import ToolContext
from agent.tools.bash import Bash, BashParams
from agent.tools.process import ProcessBook
from agent.workspace.paths import Workspace


class Shell:
    def __init__(self, root: Path, logs: Path) -> None:
        self.book = ProcessBook()
        self.tool = Bash(Workspace(root), os.environ, logs, self.book)
        self.progress: list[str] = []

    async def __call__(self, command: str, timeout: float = 20) -> ToolOutput:
        params = BashParams(command=command, timeout=timeout)
        return await self.tool.run(params, ToolContext("c", self.tool.plan(params), self.progress.append))


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    project = tmp_path / "project"
    project.mkdir()
    made = Shell(project, tmp_path / "logs")
    yield made
    await made.book.stop_all()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("command", "text", "failed"),
    [
        ("echo hi", "hi\n[exit status 0]", False),
        ("echo out; echo err >&2; exit 7", "out\nerr\n[exit status 7]", True),
        ("cat <<'X'\nhello\nX", "hello\n[exit status 0]", False),
        ("echo hi # a comment", "hi\n[exit status 0]", False),
        ("true", "[exit status 0]", False),
        ("kill -9 $$", "[ended by signal 9]", True),
        ("printf 'a\\rb\\033[31mc\\033[0m\\000d\\n'", "bcd\n[exit status 0]", False),
        ("cat", "[exit status 0]", False),
    ],
)
async def test_output_and_status_are_told_as_they_were(shell: Shell, command: str, text: str, failed: bool) -> None:
    output = await shell(command)
    assert (output.text, output.failed) == (text, failed)


async def test_an_unclosed_quote_is_an_error_not_a_hang(shell: Shell) -> None:
    output = await shell("echo 'half")
    assert output.failed and "unexpected EOF" in output.text


async def test_each_call_is_a_new_shell(shell: Shell) -> None:
    await shell("cd / && export X=1")
    assert (await shell('pwd; echo "x=$X"')).text.startswith(f"{shell.tool._workspace.root}\nx=")


@pytest.mark.parametrize("start", ["sleep 300 &", "setsid sleep 300 & disown;", "env -i setsid sleep 300 &"])
async def test_a_background_child_neither_blocks_nor_outlives_us(shell: Shell, start: str) -> None:
    output = await asyncio.wait_for(shell(f"{start} echo done"), 15)
    assert output.text.startswith("done") and "left running" in output.text
    pids = [p.pid for p in shell.book.left()]
    assert pids and all(alive(p) for p in pids)
    await shell.book.stop_all()
    assert not any(alive(p) for p in pids)


async def test_a_time_out_ends_all_that_was_started_and_keeps_the_output(shell: Shell, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 300 & echo $! > {pids}; echo $$ >> {pids}; echo early; wait; wait; sleep 300"
    output = await shell(script, timeout=1)
    assert output.failed and "early" in output.text and "timed out after 1 s" in output.text
    assert not any(alive(int(p)) for p in pids.read_text().split())


async def test_cancelling_ends_all_that_was_started(shell: Shell, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    running = asyncio.create_task(shell(f"setsid sleep 300 & echo $! > {pids}; echo $$ >> {pids}; echo up; wait"))
    while not shell.progress:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not any(alive(int(p)) for p in pids.read_text().split())


async def test_a_long_output_keeps_both_ends_its_size_and_a_file_with_all_of_it(shell: Shell, tmp_path: Path) -> None:
    output = await shell("seq 1 300000; exit 3")
    assert output.text.startswith("1\n2\n") and "300000\n[exit status 3]" in output.text
    assert len(output.text) < 25_000 and "1988895 bytes in all" in output.text
    log = next((tmp_path / "logs").glob("bash-*.log"))
    assert str(log) in output.text and log.stat().st_size == 1988895


async def test_one_endless_line_is_bounded(shell: Shell) -> None:
    output = await shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo AFTER")
    assert "AFTER\n[exit status 0]" in output.text and len(output.text) < 25_000


async def test_endless_output_is_stopped_at_the_limit(shell: Shell) -> None:
    output = await shell("yes", timeout=60)
    assert output.failed and "stopped: more than 256 MB of output" in output.text and not shell.book.left()


async def test_a_removed_folder_is_one_sentence(shell: Shell) -> None:
    shell.tool._workspace.root.rmdir()
    with pytest.raises(ToolFailure, match="is gone"):
        await shell("echo hi")


def test_an_empty_command_is_refused_before_anything_runs(tmp_path: Path) -> None:
    tool = Bash(Workspace(tmp_path), os.environ, tmp_path, ProcessBook())
    with pytest.raises(ToolFailure, match="empty"):
        tool.plan(BashParams(command="  "))


async def test_a_foreign_process_is_never_ended(shell: Shell) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    try:
        await shell("true")
        await shell.book.stop_all()
        assert alive(other.pid)
    finally:
        other.send_signal(signal.SIGKILL)
        await other.wait()
