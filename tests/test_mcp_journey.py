"""From a wish to a tool that the model calls, in one conversation: the skill is loaded, the server is written from its
template, its tests pass, it is connected, and its tool does the work. Needs the package index of Python."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.events import DurableEvent, ResultAdded
from agent.store.archive import FileArchive
from tests.fakes.llama import FakeLlama, Reply, calls, say
from tests.terminal import Terminal

pytestmark = [pytest.mark.indexes, pytest.mark.timeout(600)]
SKILL = Path(__file__).parents[1] / "skills" / "mcp-server"
INDEX_SETTINGS = ("PIP_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY")
MADE = f"sh {SKILL}/scripts/new.sh text-tools && python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]'"
REVERSED = r"""
set -e
sed -i 's/word_count/reverse/; s/-> int:/-> str:/; s/return len.*/return text[::-1]/' src/text_tools/core.py
sed -i 's/word_count/reverse/g; s/count_words/reverse_text/; s/-> int:/-> str:/; s/Count the words of/Turn round/' \
    src/text_tools/server.py
sed -i 's/count_words/reverse_text/g; s/"one two  three"/"abc"/; s/{"result": 3}/{"result": "cba"}/' \
    tests/test_server.py
sed -i 's/{"text": "hello"}/{"text": "ab"}/; s/{"result": 1}/{"result": "ba"}/' tests/test_server.py
.venv/bin/pytest
"""


def written() -> list[Reply]:
    """A model of middle size: it forgets the environment first, and mends that."""
    return [
        calls(("skill", {"name": "mcp-server"}), text="I load the steps for that."),
        calls(("bash", {"command": f"sh {SKILL}/scripts/new.sh text-tools && .venv/bin/pytest", "timeout": 60})),
        calls(("bash", {"command": MADE, "timeout": 300}), text="There is no environment yet."),
        calls(("bash", {"command": REVERSED, "timeout": 120})),
        calls(("bash", {"command": "python3 -m json.tool .mcp.json"})),
        say("The server text-tools has one tool, reverse_text; 4 tests passed."),
    ]


def called() -> list[Reply]:
    return [
        calls(("mcp_find", {"query": "reverse a text"})),
        calls(("mcp_call", {"tool": "mcp__text-tools__reverse_text", "arguments": '{"text": "stressed"}'})),
        say("Turned round it reads: desserts."),
    ]


def check(events: tuple[DurableEvent, ...], server: FakeLlama) -> None:
    results = [e for e in events if isinstance(e, ResultAdded)]
    assert [(r.tool, r.failed) for r in results] == [
        *(("skill", False), ("bash", True), ("bash", False), ("bash", False), ("bash", False)),
        *(("mcp_find", False), ("mcp_call", False)),
    ], results
    assert "4 passed" in results[3].text and results[-1].text.startswith("desserts")
    before, after = (json.loads(json.dumps(server.requests[n]["tools"])) for n in (5, 6))
    names = [entry["function"]["name"] for entry in after]
    assert after[: len(before)] == before and names[len(before) :] == ["mcp_find", "mcp_call"]
    sent = [r["messages"] for r in server.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(sent))


def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    (tmp_path / "project").mkdir()
    home.mkdir()
    settings = {k: v for k, v in os.environ.items() if k.startswith(INDEX_SETTINGS)}
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home / "d"), "TERM": "xterm-256color"}
    return settings | own


def command(server: FakeLlama, *arguments: str) -> list[str]:
    argv = [sys.executable, "-P", "-m", "agent", "--server", server.url, "--permission-mode", "auto"]
    return [*argv, *arguments]


def events_of(tmp_path: Path) -> tuple[DurableEvent, ...]:
    archive = FileArchive(tmp_path / "home" / "d" / "state" / "sessions")
    (session,) = archive.list()
    return archive.load(session.id)


def test_headless_the_next_prompt_of_the_same_session_calls_it(tmp_path: Path) -> None:
    env = environment(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        nothing = subprocess.DEVNULL
        argv = command(server, *arguments)
        return subprocess.run(
            argv, env=env, cwd=tmp_path / "project", stdin=nothing, capture_output=True, text=True, timeout=400
        )

    with FakeLlama([*written(), *called()], n_ctx=32_768) as server:
        first = run("-p", "Write an MCP server text-tools that turns a text round.")
        assert first.returncode == 0, first.stderr
        left_out = run("-c", "-p", "/skills")
        assert "Left out, since this folder is not trusted: MCP server text-tools." in left_out.stderr
        second = run("-c", "--trust", "-p", "Turn “stressed” round with it.")
        assert second.stdout == "Turned round it reads: desserts.\n", second.stderr
    check(events_of(tmp_path), server)


def test_on_the_screen_it_is_asked_about_when_the_turn_ends_and_called_in_the_next(tmp_path: Path) -> None:
    env = environment(tmp_path)
    with FakeLlama([*written(), *called()], n_ctx=32_768) as server:
        terminal = Terminal(command(server), env, tmp_path / "project", 100, 40)
        try:
            terminal.until(lambda screen: "What shall we build?" in screen)
            terminal.type("Write an MCP server text-tools that turns a text round.\r")
            screen = terminal.until(lambda screen: "[not now]" in screen, 400)
            assert "text-tools (.venv/bin/python -m text_tools.server)" in " ".join(screen.replace("│", " ").split())
            terminal.type("\x1b[D\x1b[D")
            terminal.until(lambda screen: "[trust it, and remember]" in screen)
            terminal.type("\r")
            terminal.until(lambda screen: "These count from now on" in screen)
            terminal.type("Turn “stressed” round with it.\r")
            terminal.until(lambda screen: "it reads: desserts." in screen, 120)
            terminal.type("\x11")  # Ctrl+Q: the turn may still be ending
            assert terminal.wait() == 0
        finally:
            terminal.close()
    check(events_of(tmp_path), server)
