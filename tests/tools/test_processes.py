"""Real shells and real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.conftest import Bench


async def until(condition: Callable[[], object], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.02)


def with_command_line(text: str) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if text in (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"):
                    found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cat <<'EOF'\nhello\nEOF", "hello\n[exit status 0]"),
        ("echo hi # note", "hi\n[exit status 0]"),
        ("exit 7", "[exit status 7]"),
        ("kill -9 $$", "[ended by signal 9]"),
        ("yes | head -1", "y\n[exit status 0]"),
        ("false | true", "[exit status 0]"),
        ("sleep 0.1 &", "[exit status 0]"),
        ("cat; echo end", "end\n[exit status 0]"),
        ("exec >&- 2>&-; sleep 0.1; exit 4", "[exit status 4]"),
        (r"printf '\033[31mred\033[0m\0 10%%\r20%%\r\n'", "20%\n[exit status 0]"),
    ],
)
async def test_the_command_runs_as_written_and_its_end_is_told(bench: Bench, command: str, shown: str) -> None:
    assert (await bench.bash(command)).text == shown


async def test_a_syntax_error_is_an_answer_and_an_empty_command_a_refusal(bench: Bench) -> None:
    assert "[exit status 2]" in (await bench.bash("echo 'open")).text
    assert "empty" in (await bench.bash("   ")).text


async def test_no_state_is_kept_between_commands(bench: Bench) -> None:
    (bench.root / "sub").mkdir()
    await bench.bash("cd sub; export X=1; set -e")
    assert (await bench.bash('pwd; echo "[$X]"')).text == f"{bench.root}\n[]\n[exit status 0]"


async def test_a_project_folder_that_is_gone_is_said_and_works_again_when_it_is_back(bench: Bench) -> None:
    bench.root.rmdir()
    assert "is gone" in (await bench.bash("echo a")).text
    bench.root.mkdir()
    assert "a\n" in (await bench.bash("echo a")).text


@pytest.mark.parametrize(
    "command",
    [
        "sleep 300 & echo done",
        "setsid sleep 300 >/dev/null & echo done",
        "nohup sleep 300 & disown; echo done",
        "env -i setsid sleep 300 >/dev/null 2>&1 & echo done",
        "(setsid sleep 300 >/dev/null 2>&1 &); echo done",
    ],
)
async def test_what_stays_in_the_background_is_named_listed_and_stopped(bench: Bench, command: str) -> None:
    began = time.monotonic()
    text = (await bench.bash(command)).text
    assert time.monotonic() - began < 3
    assert text.startswith("done\n[exit status 0]\n[left running in the background: ")
    pid = int(re.findall(r"background: (\d+) ", text)[0])
    assert pid in [proc.pid for proc in bench.book.left()]
    assert (await bench.bash("echo next")).text == "next\n[exit status 0]"
    assert await bench.book.stop_all() == ()
    assert bench.book.left() == ()
    assert not Path(f"/proc/{pid}").exists()


async def test_what_stays_in_the_background_can_go_on_writing(bench: Bench) -> None:
    """A server that logs to a closed pipe would die at its first request."""
    text = (
        await bench.bash("(until [ -e go ]; do sleep 0.05; done; echo later; touch wrote; sleep 300) & echo done")
    ).text
    log = Path(re.findall(r"what it prints goes to ([^;]+);", text)[0])
    (bench.root / "go").touch()
    await until((bench.root / "wrote").exists)
    await until(lambda: log.read_text() == "done\nlater\n")


async def test_a_time_out_stops_even_what_ignores_the_request(bench: Bench) -> None:
    beat = bench.root / "beat.log"
    stubborn = 'bash -c \'trap "" TERM; (trap "" TERM; while :; do date >> beat.log; sleep 0.1; done) & wait\''
    out = await bench.bash(f"echo early; {stubborn}", timeout=0.5)
    assert out.failed
    assert out.text == "early\n[timed out after 0.5 s; it and all it had started were stopped]"
    assert bench.book.left() == ()
    assert beat.exists()


async def test_what_forks_when_told_to_stop_is_stopped_too(bench: Bench) -> None:
    out = await bench.bash("trap 'setsid sleep 3141 &' TERM; while :; do sleep 0.1; done", timeout=0.5)
    assert "timed out after 0.5 s" in out.text
    assert not with_command_line("sleep 3141")


async def test_a_second_cancellation_leaves_nothing_behind(bench: Bench) -> None:
    running = asyncio.create_task(bench.bash("trap '' TERM; touch on; while :; do sleep 0.1; done; : mark-2718"))
    await until((bench.root / "on").exists)
    running.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not with_command_line("mark-2718")
    assert (await bench.bash("echo next")).text == "next\n[exit status 0]"


async def test_a_helper_of_the_product_that_starts_meanwhile_is_left_alone(bench: Bench) -> None:
    running = asyncio.create_task(bench.bash("touch on; sleep 60", timeout=1))
    await until((bench.root / "on").exists)
    engine = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    try:
        assert "timed out" in (await running).text
        assert "left" not in (await bench.bash("echo x")).text
        await bench.book.stop_all()
        assert Path(f"/proc/{engine.pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    finally:
        engine.kill()
        assert await engine.wait() == -9


def zombies() -> set[str]:
    """Pids of our own children that are dead and not yet reaped."""
    found: set[str] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text(errors="replace").rpartition(")")[2].split()[:2] == ["Z", str(os.getpid())]:
                found.add(stat.parent.name)
    return found


async def test_dead_orphans_are_reaped(bench: Bench) -> None:
    before = zombies()
    await bench.bash("(sleep 0.1 >/dev/null 2>&1 &); (setsid sleep 0.1 >/dev/null 2>&1 &); echo x")
    await until(lambda: not bench.book.left() and not zombies() - before)


async def test_a_long_output_keeps_both_ends_its_size_and_the_whole_in_a_file_with_flat_memory(bench: Bench) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out = await bench.bash("echo START; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo AFTER; exit 3")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB
    assert len(out.text) < 25_000
    assert out.text.startswith("START\nxxx")
    assert out.text.endswith("xxx\nAFTER\n[exit status 3]")
    assert "100000013 bytes in all, the middle is left out; its first 64 MB is in" in out.text
    log = next(bench.logs.iterdir())
    assert str(log) in out.text
    assert 64_000_000 <= log.stat().st_size < 64_100_000
    log.unlink()
    assert sum(map(len, bench.progress)) < 1_100_000


async def test_an_endless_output_is_stopped_at_the_limit(bench: Bench) -> None:
    out = await bench.bash("yes")
    assert "stopped: more than 256 MB" in out.text
    assert out.failed
    next(bench.logs.iterdir()).unlink()


async def test_a_short_pause_shows_what_came_before_it(bench: Bench) -> None:
    running = asyncio.create_task(bench.bash("echo compiling; until [ -e go ]; do sleep 0.05; done"))
    await until(lambda: "".join(bench.progress) == "compiling\n")
    (bench.root / "go").touch()
    await running
