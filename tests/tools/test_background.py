"""What goes on behind a call, and the process tool: real servers, real prompts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from agent.errors import ToolFailure
from tests.tools.conftest import Bench, alive, until


def free_port(first: int = 20_000) -> int:
    """One that nobody would get by asking the system for any."""
    for port in range(first + os.getpid() % 5000, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no free port")


# ---- the command is over, what it started is not
@pytest.mark.parametrize(
    "command",
    [
        "sleep 300 & echo done",
        "setsid sleep 300 >/dev/null & echo done",
        "nohup sleep 300 & disown; echo done",
        "env -i setsid sleep 300 >/dev/null 2>&1 & echo done",
        "(setsid sleep 300 >/dev/null 2>&1 &); echo done",
        "(while :; do echo tick; sleep 1; done) & sleep 0.2; echo done",
        "node -e 'setInterval(() => {}, 1000)' & sleep 0.5; echo done",
    ],
)
async def test_what_stays_in_the_background_is_named_listed_and_stopped(bench: Bench, command: str) -> None:
    began = time.monotonic()
    text = await bench.text(command)
    assert time.monotonic() - began < 5
    assert "done\n" in text and "[exit status 0]\n[left running in the background: 1 (" in text
    pid = int(re.findall(r"pid (\d+)", text)[0])
    assert pid in [p.pid for p in bench.book.left()]
    assert await bench.text("echo next") == "next\n[exit status 0]"
    assert alive(pid), "a command that ends does not take along what it has left"
    assert f"pid {pid}" in await bench.process("list")
    assert f"pid {pid}" in await bench.process("stop", str(pid))
    assert not alive(pid) and bench.book.left() == ()
    assert await bench.process("list") == "Nothing runs in the background."
    assert "had already ended" in await bench.process("stop", "1")


async def test_a_server_behind_a_command_answers_and_is_listed_with_its_port(bench: Bench) -> None:
    port = free_port()
    text = await bench.text(
        f"python3 -m http.server {port} --bind 127.0.0.1 & sleep 2;"
        f" curl -s -o /dev/null -w '%{{http_code}}\\n' http://127.0.0.1:{port}/; echo done"
    )
    assert "200\ndone\n[exit status 0]" in text and f"listening on {port}" in text
    assert [p.ports for p in bench.book.list()] == [(port,)]


async def test_what_stays_in_the_background_can_go_on_writing(bench: Bench) -> None:
    """A server that logs to a closed terminal would die at its first request."""
    await bench.text("(until [ -e go ]; do sleep 0.05; done; echo later; touch wrote; sleep 300) & echo done")
    (bench.root / "go").touch()
    await until((bench.root / "wrote").exists)
    assert (await bench.process("read", "1")).startswith("later\n[the command has ended with exit status 0; left")


async def test_dead_orphans_are_reaped(bench: Bench) -> None:
    def zombies() -> set[str]:
        stats = {p.parent.name: p.read_text(errors="replace") for p in Path("/proc").glob("[0-9]*/stat") if p.exists()}
        return {pid for pid, s in stats.items() if s.rpartition(")")[2].split()[:2] == ["Z", str(os.getpid())]}

    before = zombies()
    await bench.bash("(sleep 0.1 >/dev/null 2>&1 &); (setsid sleep 0.1 >/dev/null 2>&1 &); echo x")
    await until(lambda: not bench.book.left() and not zombies() - before)


# ---- the command is not over
async def test_a_server_in_the_foreground_is_handed_back_with_its_port(bench: Bench) -> None:
    port = free_port()
    text = await bench.text(f"python3 -m http.server {port} --bind 127.0.0.1", timeout=60)
    assert f"[running in the background, since it listens on a port: 1 (python3 -m http.server {port}" in text
    assert f"listening on {port}" in text
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
        assert answer.status == 200
    await until(lambda: '"GET / HTTP/1.1" 200' in bench.book.running()[0].output.tail)
    assert '"GET / HTTP/1.1" 200' in await bench.process("read", "1")
    assert "Stopped 1" in await bench.process("stop", "1")
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port)):
        pass


async def test_a_test_run_that_opens_ports_of_its_own_is_waited_for(bench: Bench) -> None:
    serve = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); time.sleep(2.5); print('passed')"
    assert await bench.text(f'{sys.executable} -c "{serve}"') == "passed\n[exit status 0]"


async def test_a_server_that_the_command_itself_put_aside_does_not_cut_it_short(bench: Bench) -> None:
    port = free_port()
    text = await bench.text(f"python3 -m http.server {port} --bind 127.0.0.1 & sleep 3; echo done")
    assert "done\n[exit status 0]" in text


async def test_a_command_for_the_background_comes_back_at_once_or_with_its_failure(bench: Bench) -> None:
    output = await bench.call("bash", command="echo up; sleep 300", in_background=True)
    assert not output.failed and output.text.startswith("up\n[running in the background: 1 (echo up; sleep 300), pid ")
    output = await bench.call("bash", command="echo broken; exit 3", in_background=True)
    assert output.failed and output.text == "broken\n[exit status 3]"


async def test_the_end_of_a_background_command_is_told_once_with_the_next_one(bench: Bench) -> None:
    await bench.call("bash", command="until [ -e go ]; do sleep 0.05; done; echo fin; exit 5", in_background=True)
    (bench.root / "go").touch()
    async with asyncio.timeout(20):
        while (text := await bench.text("echo a")) == "a\n[exit status 0]":
            pass
    assert "[in the background 1 (until [ -e go ]" in text and "status 5" in text
    assert await bench.text("echo a") == "a\n[exit status 0]"
    assert "fin\n[1 has ended with exit status 5]" in await bench.process("read", "1")


async def test_waiting_ends_with_the_command(bench: Bench) -> None:
    await bench.call("bash", command="until [ -e go ]; do sleep 0.05; done; echo fin", in_background=True)
    waiting = asyncio.create_task(bench.process("wait", "1"))
    await asyncio.sleep(0)
    (bench.root / "go").touch()
    assert await waiting == "fin\n[1 has ended with exit status 0]"


async def test_a_flood_in_the_background_is_bounded(bench: Bench) -> None:
    text = (await bench.call("bash", command="yes", in_background=True)).text
    assert len(text) < 25_000 and "running in the background" in text
    assert "Stopped 1" in await bench.process("stop", "1")
    assert len(await bench.process("read", "1")) < 17_000


# ---- waiting for input
ASKING = {
    "bash": "read -p 'Your name? ' x; echo \"hello $x\"",
    "python": f'{sys.executable} -c \'print("hello", input("Your name? "))\'',
    "node": "node -e \"const r = require('readline').createInterface({input: process.stdin, output: process.stdout});"
    " r.question('Your name? ', a => { console.log('hello', a); r.close() })\"",
    "tty": "read -p 'Your name? ' x </dev/tty >/dev/tty; echo \"hello $x\"",
}


@pytest.mark.parametrize("program", ASKING)
async def test_a_question_is_told_once_and_can_be_answered(bench: Bench, program: str) -> None:
    text = await bench.text(ASKING[program])
    assert text.startswith("Your name?") and "since it waits for input: 1 (" in text and "process write 1" in text
    text = await bench.process("write", "1", text="Eve")
    assert "hello Eve" in text and "[1 has ended with exit status 0]" in text


async def test_a_password_is_not_shown(bench: Bench) -> None:
    await bench.bash("read -sp 'Password: ' x; echo; echo ${#x}")
    assert [(p.asks, p.hidden) for p in bench.book.list()] == [("Password: ", True)]
    text = await bench.process("write", "1", text="s3cret")
    assert "6\n" in text and "s3cret" not in text


async def test_a_menu_takes_single_keys(bench: Bench) -> None:
    await bench.bash("read -rsn1 -p 'Go on? [y/n] ' k; echo; printf 'key %q\\n' \"$k\"")
    assert "key $'\\E'" in await bench.process("write", "1", text="\x1b")


async def test_what_reads_without_a_word_is_noticed_and_ended_by_its_key(bench: Bench) -> None:
    assert "waits for input" in await bench.text("cat")
    assert "[1 has ended with exit status 0]" in await bench.process("write", "1", text="\x04")


async def test_a_quiet_command_that_reads_nothing_is_waited_for(bench: Bench) -> None:
    assert await bench.text("printf 'working: '; sleep 3; echo done") == "working: done\n[exit status 0]"


async def test_the_user_has_time_to_answer_before_the_model_is_told(bench: Bench) -> None:
    bench.forget(patience=60)
    asked: list[tuple[str, str | None]] = []
    bench.book.on_change = lambda processes: asked.extend((p.id, p.asks) for p in processes)
    running = asyncio.create_task(bench.bash("read -p 'Your name? ' x; echo \"hello $x\""))
    await until(lambda: ("1", "Your name? ") in asked)
    assert bench.book.type_into("1", "Eve")
    assert (await running).text == "Your name? Eve\nhello Eve\n[exit status 0]"
    assert bench.book.list() == () and not bench.book.type_into("1", "late")


# ---- the process tool
async def test_an_unknown_process_is_refused_with_those_that_run(bench: Bench) -> None:
    assert await bench.process("read", "9") == "There is no process '9'. None runs."
    await bench.call("bash", command="sleep 300", in_background=True)
    assert await bench.process("stop", "9") == "There is no process '9'. Running: 1 (sleep 300)."
    with pytest.raises(ToolFailure, match="No process '9' runs"):
        await bench.book.stop("9")


async def test_only_typing_needs_permission(bench: Bench) -> None:
    await bench.call("bash", command="sleep 300", in_background=True)
    tool = bench.tools["process"]
    kinds = {
        action: tool.plan(tool.params.model_validate({"action": action, "id": 1, "text": "rm x"}))
        for action in ("list", "read", "wait", "stop", "write")
    }
    assert {a: p.kind for a, p in kinds.items()} == dict.fromkeys(("list", "read", "wait", "stop"), "think") | {
        "write": "execute"
    }
    assert kinds["write"].command == "rm x"
