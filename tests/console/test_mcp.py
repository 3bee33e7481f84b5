"""`dflash-agent mcp` as a stranger meets it: every run is a real process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.console.test_console import run
from tests.fakes.mcp_server import script, tool


def entry(folder: Path, name: str, **what: Any) -> str:
    """As `mcp add` takes it."""
    return json.dumps({"mcpServers": {name: script(folder, name, **what)}})


def test_what_is_added_is_listed_shown_and_removed(tmp_path: Path) -> None:
    assert "No MCP servers are configured." in run(tmp_path, "mcp", "list").stdout
    done = run(
        tmp_path, "mcp", "add", "db", "-e", "DB_PASSWORD=hunter2", "--", "run-db", "--token", "s3cret", "--port", "5"
    )
    file = tmp_path / "dflash" / "config" / "mcp.json"
    assert done.returncode == 0 and f"Added db (user: {file}): run-db --token … --port 5" in done.stdout
    listed, shown, data = (run(tmp_path, "mcp", *words) for words in (["list"], ["get", "db"], ["get", "db", "--json"]))
    assert listed.stdout == "db  user     run-db --token … --port 5\n"
    assert "  env: DB_PASSWORD\n" in shown.stdout and json.loads(data.stdout)["env"] == ["DB_PASSWORD"]
    for said in (done, listed, shown, data, run(tmp_path, "mcp", "list", "--json")):
        assert "hunter2" not in said.stdout + said.stderr and "s3cret" not in said.stdout + said.stderr
    assert run(tmp_path, "mcp", "remove", "db").stdout == f"Removed db from {file}.\n"
    assert run(tmp_path, "mcp", "remove", "db").returncode == 2


def test_the_nearest_scope_wins_and_the_other_is_said_to_be_hidden(tmp_path: Path) -> None:
    for scope, command in (("user", "far"), ("project", "near")):
        assert run(tmp_path, "mcp", "add", "db", "--scope", scope, "--", command).returncode == 0
    assert run(tmp_path, "mcp", "list").stdout == "db  project  near\ndb  user     hidden by the nearer one\n"
    assert "say which with --scope" in run(tmp_path, "mcp", "remove", "db").stderr
    assert run(tmp_path, "mcp", "remove", "db", "--scope", "project").returncode == 0
    assert run(tmp_path, "mcp", "list").stdout == "db  user     far\n"


def test_a_server_that_came_with_the_project_is_not_started_unless_it_is_named(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(entry(tmp_path, "p", tools=[tool("ping", annotations={"readOnlyHint": True})]))
    assert "not approved yet" in run(tmp_path, "mcp", "list").stdout
    done = run(tmp_path, "mcp", "test")
    assert done.returncode == 0 and "not started: it came with the project" in done.stdout
    assert not (tmp_path / "p.log").exists()
    named = run(tmp_path, "mcp", "test", "p")
    assert named.returncode == 0 and "✓ ping {}" in named.stdout and "ping was called" in named.stdout


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (
            {"exit_at_start": [3, "no module named x"]},
            ("✗ the handshake", "ended with status 3", "    no module named x"),
        ),
        (
            {"tools": [tool("ping"), tool("drop")]},
            ("✓ 2 tools", "– ping: not called, it does not say that it only reads"),
        ),
    ],
)
def test_a_trial_says_of_each_step_how_it_went(tmp_path: Path, what: dict[str, Any], says: tuple[str, ...]) -> None:
    run(tmp_path, "mcp", "add", entry(tmp_path, "x", **what))
    done = run(tmp_path, "mcp", "test", "x")
    assert done.returncode == ("exit_at_start" in what)
    assert all(words in done.stdout for words in says), done.stdout


def test_one_tool_is_called_with_arguments_of_ones_own(tmp_path: Path) -> None:
    results = {"ping": {"content": [{"type": "text", "text": "pong \x1b[31m"}]}}
    run(tmp_path, "mcp", "add", entry(tmp_path, "x", tools=[tool("ping")], results=results))
    done = run(tmp_path, "mcp", "test", "x", "--call", "ping", "--arguments", '{"a": 1}')
    assert done.returncode == 0 and '✓ ping {"a": 1}, ' in done.stdout and "\x1b" not in done.stdout
    assert run(tmp_path, "mcp", "test", "x", "--call", "pong").returncode == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("get", "nobody"), "There is no MCP server 'nobody'; configured: none."),
        (("test", "nobody"), "There is no MCP server 'nobody'"),
        (("add", "x"), "What is 'x' to run?"),
        (("new", "Bad Name"), "is no good name for a server"),
        (("test", "--call", "x", "--arguments", "[1]"), "The arguments must be a JSON object."),
        (("test", "--call", "x", "--arguments", "{"), "The arguments are not JSON"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = run(tmp_path, "mcp", *words)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr and not done.stdout


def test_a_file_that_cannot_be_read_is_named_and_the_others_count(tmp_path: Path) -> None:
    run(tmp_path, "mcp", "add", "x", "--", "program")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {')
    done = run(tmp_path, "mcp", "list")
    assert done.stdout == "x  user     program\n" and ".mcp.json is not valid JSON: " in done.stderr


def test_a_new_server_is_written_registered_and_tried(tmp_path: Path) -> None:
    done = run(tmp_path, "mcp", "new", "weather")
    server = tmp_path / "mcp-servers" / "weather" / "server.py"
    assert done.returncode == 0 and f"Wrote {server} and its tests" in done.stdout
    assert "✓ count_words " in done.stdout and server.is_file()
    assert "There is an MCP server weather already." in run(tmp_path, "mcp", "new", "weather").stderr
    assert sys.executable not in (tmp_path / ".mcp.json").read_text()  # others may start it, on another machine
