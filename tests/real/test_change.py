"""/model in a running session: another engine takes over, and the conversation goes on."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.tiny import Tiny
from tests.terminal import Terminal

pytestmark = pytest.mark.real
PROFILE = 'title = "{title}"\nctx = {ctx}\nthreads = 1\n{draft}[model]\nkind = "file"\npath = "{model}"\n'


@pytest.fixture
def terminal(home: Path, talker: Tiny) -> Iterator[Terminal]:
    profiles, project = home / "config" / "profiles", home / "project"
    profiles.mkdir(parents=True)
    project.mkdir()
    draft = f'draft = "{talker.draft}"\n'
    (profiles / "one.toml").write_text(PROFILE.format(title="Tiny One", ctx=4096, draft=draft, model=talker.target))
    (profiles / "two.toml").write_text(PROFILE.format(title="Tiny Two", ctx=2048, draft="", model=talker.target))
    (profiles / "bad.toml").write_text(PROFILE.format(title="Bad", ctx=2048, draft="", model=home / "absent.gguf"))
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home), "TERM": "xterm-256color"}
    argv = [sys.executable, "-P", "-m", "agent", "--profile", "one"]
    terminal = Terminal(argv, env, project, 120, 44)
    yield terminal
    terminal.close()


def say(terminal: Terminal, text: str) -> None:
    terminal.until(lambda s: "What shall we build?" in s)
    terminal.type(f"{text}\r")


def status(screen: str) -> str:
    return screen.rstrip().split("\n")[-1]


def engines(home: Path) -> list[str]:
    return [json.loads(f.read_text())["profile"] for f in (home / "state" / "engine").glob("*/engine.json")]


def test_another_model_takes_over_and_the_conversation_goes_on(terminal: Terminal, home: Path) -> None:
    say(terminal, "Hi")
    terminal.until(lambda s: re.search(r"Tiny One ▸DFlash +\d+ tok/s", status(s)) is not None)
    say(terminal, "/model")
    screen = terminal.until(lambda s: "/model PROFILE changes to it" in s)
    assert re.search(r"▸ one +Tiny One, DFlash, context 4,096: loads in \d+ s, as last measured", screen)
    assert re.search(r"two +Tiny Two, no drafts, context 2,048: ready, never loaded here yet", screen)
    words = " ".join(screen.split())
    assert "Put it there, or correct the profile." in words and "It needs a GPU, and none was found." in words
    say(terminal, "/model bad")
    terminal.until(lambda s: "bad cannot run here" in s)
    say(terminal, "/model two")
    terminal.until(lambda s: "The conversation is read once more: its cache is lost." in s)
    terminal.until(lambda s: "Tiny Two is ready: no drafts, context 2,048 tokens" in s)
    assert engines(home) == ["two"]
    say(terminal, "And again")
    terminal.until(lambda s: re.search(r"Tiny Two +\d+ tok/s +acc n/a +cache \d+% +ctx .*/2.0k", status(s)) is not None)
    assert terminal.text.count("Hello! This reply comes from a tiny model") == 2  # the first one still stands there
    say(terminal, "/model two")
    terminal.until(lambda s: "two runs already." in s)
    assert json.loads((home / "state" / "preferences.json").read_text())["profile"] == "two"
    terminal.type("\x03\x03")
    assert terminal.wait() == 130 and engines(home) == []


def test_a_change_during_a_turn_waits_for_its_end(terminal: Terminal) -> None:
    say(terminal, "Hi")
    terminal.until(lambda s: "Hello!" in s)
    terminal.type("/model two\r")
    terminal.until(lambda s: "Tiny Two is ready" in s)
    screen = terminal.until(lambda s: "Tiny Two" in status(s))
    assert "Logs. Bye." in screen or "logs. Bye." in screen  # the reply came to its end
