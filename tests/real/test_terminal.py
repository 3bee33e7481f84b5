"""The screen as a user has it: the console program in a terminal, with the real engine."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal import Terminal

pytestmark = pytest.mark.real
BUSY = "loading|checking|reading|waiting|~"  # on a slow machine it waits while the engine starts
PROMPT = "Write one sentence about the sea."


@pytest.fixture
def launch(home: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []
    project = home / "project"
    project.mkdir()

    def start(columns: int, rows: int, *arguments: str, **more: str) -> Terminal:
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home), "TERM": "xterm-256color"} | more
        argv = [sys.executable, "-P", "-m", "agent", "--profile", "smoke", "--offline", *arguments]
        opened.append(Terminal(argv, env, project, columns, rows))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


@pytest.mark.parametrize("columns, rows", [(40, 12), (80, 24), (120, 40), (200, 50)])
def test_a_question_is_answered_at_every_size(launch: Callable[..., Terminal], columns: int, rows: int) -> None:
    terminal = launch(columns, rows)
    terminal.until(lambda screen: "What shall we build?" in screen)
    terminal.type(f"Hi\x7f\x7f{PROMPT}\r")  # keys in one burst keep their order
    terminal.until(lambda screen: f"› {PROMPT}" in " ".join(screen.split()))
    terminal.until(lambda screen: re.search(r"\n +\d+ tokens? · ", screen) is not None, 240)
    terminal.type("\x03\x03")
    assert terminal.wait() == 130
    assert "1049" not in terminal.modes and "25" in terminal.modes


def test_a_window_that_changes_its_size_in_mid_reply_stays_whole(launch: Callable[..., Terminal]) -> None:
    terminal = launch(200, 50, "Tell me a long story about a ship.")
    terminal.until(lambda screen: "~" in screen.split("\n")[-1])
    for columns, rows in ((40, 12), (100, 30), (60, 10), (120, 40)):
        terminal.resize(columns, rows)
        screen = terminal.until(lambda s: "SmolLM2" in s.split("\n")[-1])
        assert all(len(line) <= columns for line in screen.split("\n"))
    terminal.type("\x1b")
    terminal.until(lambda screen: "Interrupted" in screen or re.search(r"\n  \d.* tok/s", screen) is not None)
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait() == 143


def test_what_waits_is_steered_queued_and_given_back(launch: Callable[..., Terminal]) -> None:
    terminal = launch(100, 40, "Tell me a very long story about a ship and its crew.")
    terminal.until(lambda screen: re.search(BUSY, screen.split("\n")[-1]) is not None)
    terminal.type("behind it\x1b\r")  # Alt+Enter
    terminal.until(lambda screen: "behind it  queued" in screen)
    terminal.type("into it\r")
    terminal.until(lambda screen: "into it  next" in screen)
    terminal.type("\x1b[A")
    terminal.until(lambda screen: "│ into it" in screen and "│ behind it" in screen and "queued" not in screen)
    terminal.type("\x1b\r")
    terminal.until(lambda screen: "queued" in screen)
    terminal.type("half written")
    terminal.until(lambda screen: "half written" in screen)
    terminal.type("\x1b")
    terminal.until(lambda screen: "Interrupted" in screen and "│ behind it" in screen and "│ half written" in screen)
    terminal.type("\x03Say hi.\r")
    terminal.until(lambda screen: re.search(f"› Say hi.*({BUSY})", screen, re.S) is not None)


def test_what_was_sent_is_recalled_by_the_next_run(launch: Callable[..., Terminal]) -> None:
    first = launch(80, 24, "--permission-mode", "auto")
    first.until(lambda screen: "What shall we build?" in screen)
    first.type("remember me\r")
    first.until(lambda screen: "› remember me" in screen)
    first.type("\x03\x03\x03")
    assert first.wait() == 130
    second = launch(80, 24)
    second.until(lambda screen: "What shall we build?" in screen)
    second.type("\x1b[A")
    second.until(lambda screen: "remember me" in screen)


def test_the_editor_has_the_terminal_to_itself_and_gives_it_back(launch: Callable[..., Terminal], home: Path) -> None:
    editor = home / "editor"
    editor.write_text('#!/bin/sh\nprintf "I am the editor"; read line; echo "$line" > "$1"\n')
    editor.chmod(0o755)
    terminal = launch(80, 24, EDITOR=str(editor))
    terminal.until(lambda screen: "What shall we build?" in screen)
    terminal.type("draft\x07")
    terminal.until(lambda screen: "I am the editor" in screen)
    assert "1049" not in terminal.modes
    terminal.type("what I wrote\r")
    terminal.until(lambda screen: "│ what I wrote" in screen)
    assert "1049" in terminal.modes
    terminal.type("\x03\x03\x03")
    assert terminal.wait() == 130


def test_another_session_is_resumed_in_the_screen(launch: Callable[..., Terminal]) -> None:
    terminal = launch(100, 30, PROMPT)
    terminal.until(lambda screen: re.search(r"\n +\d+ tokens? · ", screen) is not None, 240)
    terminal.type("/new\r")
    terminal.until(lambda screen: PROMPT not in screen and "What shall we build?" in screen)
    terminal.type("/resume ")
    terminal.until(lambda screen: PROMPT in screen)
    terminal.type("\r")
    terminal.until(lambda screen: f"› {PROMPT}" in screen)
    terminal.type("\x03\x03")
    assert terminal.wait() == 130
