"""MCP in a real terminal: the console program, real servers, and a model that plays a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.llama import FakeLlama, Reply, call, say
from tests.fakes.mcp_server import script, tool
from tests.terminal import Terminal

Open = Callable[..., tuple[Terminal, FakeLlama]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "home" / "config").mkdir(parents=True)
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    where = str(home / "home")
    return {
        "PATH": os.environ["PATH"],
        "HOME": where,
        "DFLASH_HOME": where,
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
    }


@pytest.fixture
def launch(home: Path) -> Iterator[Open]:
    opened: list[tuple[Terminal, FakeLlama]] = []

    def start(*replies: Reply, columns: int = 100, rows: int = 40, flags: tuple[str, ...] = ()) -> Any:
        server = FakeLlama(list(replies), n_ctx=32_768, strict=True)
        server.__enter__()
        argv = [sys.executable, "-P", "-m", "agent", "--server", server.url, *flags]
        opened.append((Terminal(argv, environment(home), home / "project", columns, rows), server))
        return opened[-1]

    yield start
    for terminal, server in opened:
        terminal.close()
        server.__exit__()


def configure(home: Path, entries: dict[str, Any]) -> None:
    (home / "home" / "config" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))


def sent(server: FakeLlama) -> str:
    return "\n".join(str(m["content"]) for m in server.requests[-1]["messages"])


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_from_mcp_new_to_the_first_call_of_a_model(home: Path, launch: Open, columns: int, rows: int) -> None:
    argv = [sys.executable, "-P", "-m", "agent", "mcp", "new", "weather"]
    made = subprocess.run(argv, env=environment(home), cwd=home / "project", capture_output=True, text=True, timeout=60)
    assert made.returncode == 0 and "✓ count_words" in made.stdout, made.stdout + made.stderr
    used = call("mcp_call", tool="mcp__weather__count_words", arguments={"text": "one two three"})
    terminal, server = launch(
        used, say("There are three words."), columns=columns, rows=rows, flags=("--permission-mode", "auto")
    )
    terminal.until(lambda screen: "What shall we build?" in screen)
    terminal.type("/mcp restart weather\r")  # says how that went
    terminal.until(lambda screen: "ready      weather: weather, 1 tool, " in screen)
    terminal.type("How many words are in “one two three”?\r")
    terminal.until(lambda screen: "There are three words." in screen)
    results = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]
    assert results == ["3"]


def test_a_new_server_made_in_the_conversation_serves_the_next_message(home: Path, launch: Open) -> None:
    used = call("mcp_call", tool="mcp__weather__count_words", arguments={"text": "a b"})
    other = script(home, "other", tools=[tool("ping")])  # without any server a conversation has no way to call one
    configure(home, {"other": other})
    terminal, server = launch(used, say("Two."), flags=("--permission-mode", "auto"))
    terminal.until(lambda screen: "What shall we build?" in screen)
    terminal.type("/mcp new weather\r")
    terminal.until(lambda screen: "server.py is yours to change" in "".join(screen.split("\n   ")))
    terminal.type("Count.\r")
    terminal.until(lambda screen: "Two." in screen)
    assert "MCP server weather is ready" in sent(server)
    assert [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"] == ["2"]


def test_twenty_servers_with_four_hundred_tools_do_not_stand_between_the_user_and_the_prompt(
    home: Path, launch: Open
) -> None:
    """Not timed: none of them answers before the first turn is over."""
    tools = [tool(f"tool_{n}", "does one of many things " * 5) for n in range(20)]
    gate = home / "gate"
    os.mkfifo(gate)
    configure(home, {f"s{n}": script(home, f"s{n}", tools=tools, gate=str(gate)) for n in range(20)})
    terminal, server = launch(say("Hello."), say("All there."))
    terminal.until(lambda screen: "What shall we build?" in screen)
    terminal.type("hi\r")
    terminal.until(lambda screen: "Hello." in screen)
    assert "is ready" not in sent(server)
    with gate.open("w"):  # now they go on
        terminal.type("/mcp\r")
        terminal.until(lambda screen: "400 tools" in screen or bool(terminal.type("/mcp\r")), 90)
    terminal.type("and now?\r")
    terminal.until(lambda screen: "All there." in screen)
    first, second = server.requests
    assert sent(server).count("is ready") == 20 and len(json.dumps(second["messages"][-1])) < 60_000
    assert (second["tools"], second["messages"][: len(first["messages"])]) == (first["tools"], first["messages"])
