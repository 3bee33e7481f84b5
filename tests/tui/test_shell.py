"""Commands that wait, stay and resist, on the screen as a user has it: the console program in a real terminal, real
commands, and a model that plays a script."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.llama import FakeLlama, call, say
from tests.terminal import Terminal
from tests.tools.test_background import free_port

Start = Callable[..., tuple[Terminal, FakeLlama]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "project").mkdir()
    opened: list[tuple[Terminal, FakeLlama]] = []

    def begin(*replies: Any) -> tuple[Terminal, FakeLlama]:
        server = FakeLlama(list(replies))
        server.__enter__()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "DFLASH_HOME": str(tmp_path),
            "TERM": "xterm-256color",
        }
        argv = [sys.executable, "-P", "-m", "agent", "--server", server.url, "--permission-mode", "auto", "go"]
        opened.append((Terminal(argv, env, tmp_path / "project", 100, 30), server))
        return opened[-1]

    yield begin
    for terminal, server in opened:
        terminal.close()
        server.__exit__(None, None, None)


def result(server: FakeLlama) -> str:
    return server.requests[-1]["messages"][-1]["content"]


def test_the_user_answers_and_the_model_reads_what_came_of_it(start: Start) -> None:
    terminal, server = start(call("bash", command="read -p 'Your name? ' x; echo \"hello $x\""), say("All done."))
    terminal.until(lambda s: "Waits for you" in s and "Your name?" in s and "waiting for you" in s.split("\n")[-1])
    terminal.type("Eve\r")
    screen = terminal.until(lambda s: "All done." in s)
    assert "Waits for you" not in screen
    assert result(server) == "Your name? Eve\nhello Eve\n[exit status 0]"
    terminal.type("next")
    terminal.until(lambda s: "next" in s)  # the keys are the composer's again


def test_a_password_is_seen_nowhere(start: Start) -> None:
    terminal, server = start(call("bash", command="read -sp 'Password: ' x; echo; echo ${#x}"), say("All done."))
    terminal.until(lambda s: "Waits for you" in s)
    terminal.type("s3cret")
    assert "s3cret" not in terminal.until(lambda s: "••••••" in s)
    terminal.type("\r")
    assert "s3cret" not in terminal.until(lambda s: "All done." in s)
    assert result(server) == "Password: \n6\n[exit status 0]"


def test_a_menu_takes_arrows(start: Start) -> None:
    menu = "for i in 1 2; do read -rsn3 -p 'Choose: ' k; printf '%q\\n' \"$k\"; done"
    terminal, server = start(call("bash", command=menu), say("All done."))
    terminal.until(lambda s: "arrows and Enter choose" in s)
    terminal.type("\x1b[A")
    terminal.until(lambda s: s.count("Choose:") > 3)  # asked again, in the card and in the dock
    terminal.type("\x1b[B")
    terminal.until(lambda s: "All done." in s and "Waits for you" not in s)
    assert "$'\\E[B'" in result(server)


def test_what_is_being_typed_for_the_model_stays_where_it_is(start: Start) -> None:
    terminal, _ = start(call("bash", command="read -t 20 -p 'Your name? ' x; echo \"[$x]\""), say("All done."))
    terminal.until(lambda s: "bash" in s)
    terminal.type("think of")
    terminal.until(lambda s: "Waits for you" in s)
    terminal.type(" this")
    terminal.until(lambda s: "think of this" in s)
    terminal.type("\r")  # it is sent; now nothing else wants the keys
    terminal.until(lambda s: "think of this" in s and "next" in s)
    terminal.type("\x1b")
    terminal.until(lambda s: "Interrupted" in s)


STUBBORN = 'bash -c \'trap "" TERM HUP; (trap "" TERM HUP; setsid sleep 4669 & while :; do sleep 0.1; done) & wait\''


@pytest.mark.parametrize("end", ["escape", "quit", signal.SIGTERM, signal.SIGHUP])
def test_what_resists_ends_with_the_turn_and_with_the_program(start: Start, end: str | signal.Signals) -> None:
    terminal, server = start(call("bash", command=f"echo begun; {STUBBORN}"), say("never"), say("next works"))
    terminal.until(lambda s: "begun" in s and running("sleep 4669") != [])
    if end == "escape":
        terminal.type("\x1b")
        terminal.until(lambda s: "Interrupted" in s)
    elif end == "quit":
        terminal.type("\x03\x03\x03")
        assert terminal.wait() == 130
    else:
        os.kill(terminal.pid, end)
        assert terminal.wait() == 128 + end
    assert not running("sleep 4669")
    if end == "escape":
        server.replies[:] = [say("next works")]
        terminal.type("again\r")
        terminal.until(lambda s: "next works" in s)
        said = server.requests[-1]["messages"][-2]["content"]
        assert said == "Interrupted by the user before it had a result. Its last words:\nbegun"


def running(command: str) -> list[str]:
    lines: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip())
        except OSError:
            continue
    return [line for line in lines if line == command]


def test_a_server_stands_in_the_status_line_until_it_is_stopped(start: Start) -> None:
    port = free_port()
    serve = f"python3 -m http.server {port} --bind 127.0.0.1"
    terminal, server = start(call("bash", command=serve), say("It is up."))
    terminal.until(lambda s: "It is up." in s and f":{port}" in s.split("\n")[-1])
    assert f"listening on {port}" in result(server)
    terminal.type("/ps\r")
    screen = terminal.until(lambda s: f"listens on {port}" in s)
    number = re.findall(r"(\d+)  python3 -m http.server", screen)[-1]
    terminal.type(f"/ps stop {number}\r")
    terminal.until(lambda s: "Stopped" in s and f":{port}" not in s.split("\n")[-1])
    assert not running(serve)


def test_quitting_ends_what_runs_in_the_background(start: Start) -> None:
    terminal, _ = start(call("bash", command="setsid sleep 4670 >/dev/null & echo up"), say("It is up."))
    terminal.until(lambda s: "It is up." in s and "1 running" in s.split("\n")[-1])
    assert running("sleep 4670")
    terminal.type("/quit\r")
    assert terminal.wait() == 0
    assert not running("sleep 4670")
