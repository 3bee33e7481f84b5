"""The first run as a user has it: the console program in a terminal, a hub on a loopback socket, the real engine."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.hub import FakeHub
from tests.namespaces import unshared
from tests.real.tiny import Tiny
from tests.terminal import Terminal

pytestmark = pytest.mark.real
PROFILE = """
title = "Tiny Gemma"
ctx = 2048
threads = 1
[model]
kind = "hub"
repo = "some/target"
file = "tiny.gguf"
bytes = {target}
[draft]
kind = "hub"
repo = "some/drafter"
file = "tiny-dflash.gguf"
[sampling]
temperature = 0
"""
Launch = Callable[..., Terminal]


@pytest.fixture
def hub(talker: Tiny) -> Iterator[FakeHub]:
    files = {"some/target/tiny.gguf": talker.target, "some/drafter/tiny-dflash.gguf": talker.draft}
    with FakeHub({name: path.read_bytes() for name, path in files.items()}) as hub:
        yield hub


@pytest.fixture
def launch(home: Path, hub: FakeHub, talker: Tiny) -> Iterator[Launch]:
    """Starts the program where the engine is, and the models of profile `tiny` are not; those of `local` are."""
    opened: list[Terminal] = []
    project = home / "project"
    project.mkdir()
    profiles = home / "config" / "profiles"
    profiles.mkdir(parents=True)
    size = len(hub.files["some/target/tiny.gguf"])
    (profiles / "tiny.toml").write_text(PROFILE.format(target=size))
    (profiles / "local.toml").write_text(f"ctx = 2048\nthreads = 1\n[model]\nkind = 'file'\npath = '{talker.target}'\n")

    def start(
        *arguments: str, columns: int = 100, rows: int = 32, within: Callable[[list[str]], list[str]] = list
    ) -> Terminal:
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home), "TERM": "xterm-256color"}
        env |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf")}
        argv = [sys.executable, "-P", "-m", "agent", *arguments]
        opened.append(Terminal(within(argv), env, project, columns, rows))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def remembered(home: Path) -> dict[str, object]:
    return json.loads((home / "state" / "preferences.json").read_text())


def test_it_leads_from_nothing_to_the_first_reply_and_is_not_seen_again(
    launch: Launch, home: Path, hub: FakeHub
) -> None:
    first = launch("--profile", "tiny")
    screen = first.until(lambda s: "Enter get it ready" in s)
    for words in ("none: no NVIDIA driver", "Tiny Gemma · DFlash · context 2,048 tokens", "tiny-dflash.gguf"):
        assert words in screen, screen
    assert not hub.asked  # nobody is asked before the user says so
    first.type("\r")
    first.until(lambda s: "What shall we build?" in s)
    screen = first.until(lambda s: "Tiny Gemma is ready: DFlash, context 2,048 tokens" in s)
    assert re.search(r"\d+ tok/s in its first answer, \d+% of its drafts accepted", " ".join(screen.split()))
    first.type("Hi\r")
    first.until(lambda s: "Hello! This reply comes from a tiny model" in s)
    first.until(lambda s: re.search(r"▸DFlash +\d+ tok/s +acc \d+%", s) is not None)
    first.type("\x03\x03")
    assert first.wait() == 130
    asked = {path.rpartition("/")[2] for _, path, _ in hub.asked}
    assert asked == {"tiny.gguf", "tiny-dflash.gguf"}  # nothing is told or looked up beside them
    assert remembered(home)["profile"] == "tiny"

    count = len(hub.asked)
    again = launch("Hello again")
    again.until(lambda s: "Hello! This reply comes" in s)
    assert "get it ready" not in again.text and len(hub.asked) == count


def test_a_start_with_everything_in_place_needs_no_network_and_tries_none(launch: Launch, home: Path) -> None:
    """In a network namespace that has only loopback; the kernel counts what somebody tries to send elsewhere."""
    terminal = launch("--profile", "tiny")
    terminal.until(lambda s: "Enter get it ready" in s)
    terminal.type("\r")
    terminal.until(lambda s: "What shall we build?" in s)
    terminal.type("\x03\x03")
    terminal.wait()

    counts = home / "snmp"
    watched = ["sh", "-c", f'"$@"; cat /proc/net/snmp /proc/net/snmp6 > {counts}', "sh"]
    alone = launch("Hi", within=lambda argv: unshared("n", [*watched, *argv], "ip link set lo up"))
    alone.until(lambda s: "Hello! This reply comes from a tiny model" in s)
    alone.type("\x03\x03\x03")
    alone.wait()
    text = counts.read_text()
    ip, udp = (counters(text, name) for name in ("Ip", "Udp"))
    assert ip["OutRequests"] > 0 and ip["OutNoRoutes"] == 0 and udp["OutDatagrams"] == 0
    assert re.search(r"^Ip6OutNoRoutes\s+0$", text, re.M)


def counters(snmp: str, protocol: str) -> dict[str, int]:
    names, values = (line.split()[1:] for line in snmp.splitlines() if line.startswith(f"{protocol}:"))
    return dict(zip(names, map(int, values), strict=True))


def test_what_was_stopped_goes_on_from_there(launch: Launch, hub: FakeHub) -> None:
    hub.faults = [{"hold": True}]
    terminal = launch("--profile", "tiny")
    terminal.until(lambda s: "Enter get it ready" in s)
    terminal.type("\r")
    terminal.until(lambda s: "getting ready" in s and "Esc stop" in s)
    assert hub.held.wait(20)
    terminal.type("\x1b")
    hub.released.set()
    terminal.until(lambda s: "Enter go on" in s)
    terminal.type("\r")
    terminal.until(lambda s: "What shall we build?" in s)
    assert re.fullmatch(r"bytes=[1-9]\d*-", hub.ranges[1])


def test_a_signal_during_a_download_gives_the_terminal_back_and_keeps_what_came(
    launch: Launch, hub: FakeHub, home: Path
) -> None:
    hub.faults = [{"hold": True}]
    terminal = launch("--profile", "tiny")
    terminal.until(lambda s: "Enter get it ready" in s)
    terminal.type("\r")
    assert hub.held.wait(20)
    terminal.until(lambda s: any(part.stat().st_size for part in (home / "hf").rglob("*.part")))
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait() == 143 and "1049" not in terminal.modes
    (part,) = (home / "hf").rglob("*.part")
    assert part.stat().st_size
    hub.released.set()
    again = launch("--profile", "tiny")
    again.until(lambda s: "MB here" in s)  # and says so


def test_a_refusal_is_told_on_the_screen_and_can_be_tried_again(launch: Launch, hub: FakeHub) -> None:
    hub.refusal = (403, "GatedRepo")
    terminal = launch("--profile", "tiny", columns=80, rows=30)
    terminal.until(lambda s: "Enter get it ready" in s)
    terminal.type("\r")
    terminal.until(lambda s: "Enter try again" in s)
    text = " ".join(terminal.text.split())
    assert f"ask for access at {hub.url}/some/target" in text and "hf auth login" in text
    hub.refusal = None
    terminal.type("\r")
    terminal.until(lambda s: "What shall we build?" in s)


def test_another_profile_can_be_chosen_and_is_remembered(launch: Launch, home: Path) -> None:
    terminal = launch("--profile", "tiny", columns=40, rows=24)
    terminal.until(lambda s: "Enter get it ready" in s)
    while "❯ local" not in terminal.text:
        before = terminal.text
        terminal.type("\x1b[B")
        terminal.until(lambda s, before=before: s != before)
    terminal.type("\r")
    terminal.until(lambda s: "What shall we build?" in s)
    terminal.until(lambda s: "local is ready: no drafts" in " ".join(s.split()))
    assert remembered(home)["profile"] == "local"


def test_a_server_that_runs_already_can_be_named_instead(launch: Launch) -> None:
    terminal = launch("--profile", "tiny")
    terminal.until(lambda s: "Enter get it ready" in s)
    terminal.type("\x1b[A\r")
    terminal.until(lambda s: "Enter attach" in s)
    terminal.type("http://127.0.0.1:9\r")
    terminal.until(lambda s: "Nobody answers at http://127.0.0.1:9." in s)
    terminal.type("\x1b")
    assert terminal.wait() == 0


def test_it_is_left_without_a_trace(launch: Launch, home: Path, hub: FakeHub) -> None:
    terminal = launch("--profile", "tiny")
    terminal.until(lambda s: "Enter get it ready" in s)
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert not hub.asked and not (home / "hf").exists() and not (home / "state" / "preferences.json").exists()
