"""A line that begins with `!`, on a real terminal with a real bash."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.llama import FakeLlama, say
from tests.terminal import Terminal

Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    opened: list[Terminal] = []
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()

    def run(server: FakeLlama, *arguments: str, columns: int = 100, rows: int = 40) -> Terminal:
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home / "d"), "TERM": "xterm-256color"}
        argv = [sys.executable, "-P", "-m", "agent", "--server", server.url, *arguments]
        opened.append(Terminal(argv, env, project, columns, rows))
        opened[-1].until(lambda screen: "fake-31b" in screen)
        return opened[-1]

    yield run
    for terminal in opened:
        terminal.close()


def quit_it(terminal: Terminal) -> None:
    terminal.type("\x11")
    assert terminal.wait() == 0


@pytest.mark.parametrize(("columns", "rows"), [(40, 20), (80, 24), (120, 40)])
def test_its_output_is_a_card_and_part_of_the_next_message(
    start: Start, tmp_path: Path, columns: int, rows: int
) -> None:
    with FakeLlama([say("before"), say("I see it.")]) as server:
        terminal = start(server, columns=columns, rows=rows)
        terminal.type("hi\r")
        terminal.until(lambda screen: "before" in screen)
        terminal.type("!cd / && echo $((40+2))")
        terminal.until(lambda screen: "─ shell ─" in screen)
        terminal.type("\r")
        terminal.until(lambda screen: "✓ !  cd /" in screen and "│ 42" in screen and "─ shell ─" not in screen)
        assert len(server.requests) == 1  # the model is not asked
        terminal.type("!pwd\r")  # the folder carries over from line to line
        terminal.until(lambda screen: "│ /\n" in screen)
        terminal.type("what was it?\r")
        terminal.until(lambda screen: "I see it." in screen)
        terminal.type("\x1b[A\x1b[A")
        terminal.until(lambda screen: "│ !pwd" in screen and "─ shell ─" in screen)
        terminal.type("\x03")
        quit_it(terminal)
    first, second = (r["messages"] for r in server.requests)
    assert second[: len(first)] == first and second[-1]["content"].startswith("what was it?\n\n[Before this message")
    assert "$ cd / && echo $((40+2))\n42\n[exit status 0]" in second[-1]["content"]
    kept = (tmp_path / "home" / "d" / "state" / "history.jsonl").read_text()
    assert "!pwd" in [json.loads(line) for line in kept.splitlines()]


def test_it_runs_beside_a_turn_and_escape_stops_it_first(start: Start) -> None:
    with FakeLlama([say("A long story", hold=True), say("done")]) as server:
        terminal = start(server)
        terminal.type("tell\r")
        terminal.until(lambda screen: "A long story" in screen)
        terminal.type("!echo now; sleep 100\r")
        terminal.until(lambda screen: "◐ !" in screen and "│ now" in screen)
        terminal.type("!echo behind it\r")
        terminal.type("\x1b")
        terminal.until(lambda screen: "stopped by the user" in screen and "Interrupted" not in screen)
        terminal.type("\x1b")
        terminal.until(lambda screen: "Interrupted" in screen)
        terminal.type("go on\r")
        terminal.until(lambda screen: "done" in screen)
        quit_it(terminal)
    said = server.requests[-1]["messages"][-1]["content"]
    assert "$ echo now; sleep 100\nnow\n[stopped by the user]" in said and "behind it" not in said


def test_what_was_run_before_a_restart_is_still_told(start: Start) -> None:
    with FakeLlama([say("first"), say("second")]) as server:
        terminal = start(server)
        terminal.type("hi\r")
        terminal.until(lambda screen: "first" in screen)
        terminal.type("!echo left behind; sleep 100\r")
        terminal.until(lambda screen: "│ left behind" in screen)
        terminal.type("\x11")  # Ctrl+Q while it runs
        assert terminal.wait() == 0
        again = start(server, "-c")
        again.until(lambda screen: "✗ !  echo left behind" in screen)
        again.type("and?\r")
        again.until(lambda screen: "second" in screen)
        quit_it(again)
    assert "left behind\n[stopped by the user]" in server.requests[-1]["messages"][-1]["content"]


def test_nothing_asks_but_a_rule_of_the_user_still_forbids(start: Start, tmp_path: Path) -> None:
    config = tmp_path / "home" / "d" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[permissions]\ndeny = ["Bash(touch secret:*)"]\n')
    with FakeLlama([say("All right.")]) as server:
        terminal = start(server, "--permission-mode", "plan")
        terminal.type("!touch made; true && touch secret-not\r")
        terminal.until(lambda screen: "✓ !  touch made" in screen)
        terminal.type("!true; touch secret\r")
        terminal.until(lambda screen: "The rule deny Bash(touch secret:*) stands in" in screen)
        terminal.type("!  \r")
        terminal.until(lambda screen: "The command is empty" in screen)
        terminal.type("hi\r")
        terminal.until(lambda screen: "All right." in screen)
    assert (tmp_path / "project" / "made").exists() and not (tmp_path / "project" / "secret").exists()
    assert "touch secret\n" not in server.requests[-1]["messages"][-1]["content"]
