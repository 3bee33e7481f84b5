"""Configured servers: the spellings of other agents, scopes, variables, and what is never shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.config.mcp import Entry, entry_of, launch_of, read_configured, shown_url
from agent.config.mcp_add import drop_server, parse_add, write_servers
from agent.errors import ConfigError


def entry(raw: Any, name: str = "x") -> Entry:
    return entry_of(name, raw, "user", Path("/f"))


@pytest.mark.parametrize(
    ("raw", "transport", "where"),
    [
        ({"command": "npx", "args": ["-y", "pkg"]}, "stdio", ("npx", "-y", "pkg")),
        ({"type": "stdio", "command": "a"}, "stdio", ("a",)),
        ({"type": "local", "command": ["bun", "x", "pkg"], "environment": {"A": "1"}}, "stdio", ("bun", "x", "pkg")),
        ({"type": "http", "url": "https://h/mcp"}, "http", "https://h/mcp"),
        ({"url": "https://h/mcp"}, "http", "https://h/mcp"),
        ({"httpUrl": "https://h/mcp"}, "http", "https://h/mcp"),
        ({"serverUrl": "https://h/mcp"}, "http", "https://h/mcp"),
        ({"type": "streamable-http", "url": "https://h/mcp"}, "http", "https://h/mcp"),
        ({"type": "remote", "url": "https://h/mcp"}, "http", "https://h/mcp"),
        ({"type": "sse", "url": "https://h/sse"}, "sse", "https://h/sse"),
    ],
)
def test_the_spellings_of_other_agents_are_understood(raw: Any, transport: str, where: Any) -> None:
    found = entry(raw)
    assert (found.transport, found.url or found.command, found.fault) == (transport, where, "")


def test_limits_filters_and_switches_of_other_agents_are_understood() -> None:
    gemini = entry({"command": "a", "timeout": 5000, "includeTools": ["x", "y"], "excludeTools": ["y"], "trust": True})
    assert gemini.call_timeout == 5 and gemini.wants("x") and not gemini.wants("y") and not gemini.wants("z")
    codex = entry({"command": "a", "startup_timeout_sec": 7, "tool_timeout_sec": 9, "enabled": False})
    assert (codex.start_timeout, codex.call_timeout, codex.enabled) == (7, 9, False)
    bearer = entry({"url": "https://h", "bearer_token_env_var": "TOKEN", "env_http_headers": {"X-A": "A"}})
    assert launch_of(bearer, {"TOKEN": "t", "A": "1"}).headers == {"X-A": "1", "Authorization": "Bearer t"}
    assert not entry({"command": "a", "disabled": True}).enabled


@pytest.mark.parametrize(
    "raw",
    [
        *({}, "text", {"args": ["x"]}, {"command": 3}, {"command": "a", "args": "x"}, {"type": "http"}),
        *({"url": "ftp://x"}, {"type": "carrier-pigeon", "url": "https://x"}, {"command": "a", "args": [{"b": 1}]}),
    ],
)
def test_an_entry_that_cannot_work_says_why_and_is_no_crash(raw: Any) -> None:
    assert entry(raw).fault


def test_variables_are_filled_in_and_a_missing_one_is_named() -> None:
    raw = {"command": "${BIN:-npx}", "args": ["$HOME", "${A}"], "env": {"K": "${A}-${B:-b}"}}
    launch = launch_of(entry(raw), {"A": "1", "HOME": "/h"})
    assert launch.command == ("npx", "$HOME", "1") and launch.env == {"K": "1-b"}
    with pytest.raises(ConfigError, match="variable A is not set"):
        launch_of(entry(raw), {})


def test_nothing_secret_is_shown() -> None:
    raw = {"command": "srv", "args": ["--api-key", "s3cret", "--token=s3cret", "KEY=s3cret", "plain"]}
    assert entry(raw).target == "srv --api-key … --token=… KEY=… plain"
    assert shown_url("https://user:s3cret@h:8/p?key=s3cret#s3cret") == "https://h:8/p?key=…"
    hidden = {"url": "https://h", "headers": {"Authorization": "s3cret"}, "env": {"K": "s3cret"}}
    assert "s3cret" not in repr(entry(hidden)) + repr(launch_of(entry(hidden), {}))


def test_the_nearest_scope_wins_whole_and_the_other_is_reported(tmp_path: Path) -> None:
    project, config = tmp_path / "p", tmp_path / "c"
    (project / "sub").mkdir(parents=True)
    (project / ".git").mkdir()
    config.mkdir()

    def servers(**names: str) -> dict[str, Any]:
        return {"mcpServers": {n: {"command": c} for n, c in names.items()}}

    (project / ".mcp.json").write_text(json.dumps(servers(a="project", b="project", c="project")))
    local = {"projects": {str(project / "sub"): servers(b="local")}}
    (config / "mcp.json").write_text(json.dumps({**servers(a="user", d="user"), **local, "tool_share": 0.1}))
    flag = tmp_path / "flag.json"
    flag.write_text(json.dumps(servers(c="flag")))
    found = read_configured(project / "sub", config, [str(flag), '{"mcpServers": {"e": {"command": "inline"}}}'])
    assert {e.name: e.command[0] for e in found.entries} == {
        **{"c": "flag", "e": "inline", "b": "local", "a": "project", "d": "user"}
    }
    assert sorted((e.name, e.scope) for e in found.hidden) == [("a", "user"), ("b", "project"), ("c", "project")]
    assert found.share == 0.1


def test_a_broken_file_is_named_with_its_line_and_the_others_count(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {\n  "a": {"command": "x",}\n}}')
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"b": {"command": "y"}}}')
    found = read_configured(tmp_path, tmp_path)
    assert [e.name for e in found.entries] == ["b"] and ".mcp.json" in found.faults[0] and "line 2" in found.faults[0]
    for bad in (str(tmp_path / "none.json"), "{", '{"a": 1}'):
        with pytest.raises(ConfigError):
            read_configured(tmp_path, tmp_path, [bad])


@pytest.mark.parametrize(
    ("line", "scope", "name", "raw"),
    [
        ("git -- uvx mcp-server-git", "user", "git", {"command": "uvx", "args": ["mcp-server-git"]}),
        (
            "claude mcp add --transport http notion https://mcp.notion.com/mcp",
            *("user", "notion", {"type": "http", "url": "https://mcp.notion.com/mcp"}),
        ),
        (
            "claude mcp add -s project --transport sse asana https://mcp.asana.com/sse -H 'X-Key: abc def'",
            *("project", "asana"),
            {"type": "sse", "url": "https://mcp.asana.com/sse", "headers": {"X-Key": "abc def"}},
        ),
        (
            "claude mcp add airtable --env AIRTABLE_API_KEY=key B=2 -- npx -y airtable-mcp-server",
            *("user", "airtable"),
            {"command": "npx", "args": ["-y", "airtable-mcp-server"], "env": {"AIRTABLE_API_KEY": "key", "B": "2"}},
        ),
        (
            "claude mcp add playwright npx @playwright/mcp@latest",
            *("user", "playwright"),
            {"command": "npx", "args": ["@playwright/mcp@latest"]},
        ),
        ('claude mcp add-json --scope local w \'{"command": "a"}\'', "local", "w", {"command": "a"}),
        (
            "codex mcp add docs --env A=1 -- npx -y docs",
            *("user", "docs"),
            {"command": "npx", "args": ["-y", "docs"], "env": {"A": "1"}},
        ),
        (
            "codex mcp add figma --url https://mcp.figma.com/mcp --bearer-token-env-var FIGMA",
            *("user", "figma"),
            {"type": "http", "url": "https://mcp.figma.com/mcp", "headers": {"Authorization": "Bearer ${FIGMA}"}},
        ),
        (
            "gemini mcp add -e A=1 --timeout 3000 --trust s python server.py --port 1",
            *("user", "s"),
            {"command": "python", "args": ["server.py", "--port", "1"], "env": {"A": "1"}, "timeout": 3000.0},
        ),
        ('{"mcpServers": {"j": {"command": "a", "args": ["b"]}}}', "user", "j", {"command": "a", "args": ["b"]}),
        ('{"name": "v", "command": "a"}', "user", "v", {"command": "a"}),
        ('-s project {"k": {"url": "https://h"}}', "project", "k", {"url": "https://h"}),
    ],
)
def test_documented_command_lines_become_entries(line: str, scope: str, name: str, raw: Any) -> None:
    import shlex

    at = line.find("{")
    words = [*shlex.split(line[:at]), line[at:]] if at >= 0 and "'{" not in line else shlex.split(line)
    assert parse_add(words) == (scope, [(name, raw)])


@pytest.mark.parametrize(
    "line", ["", "name", "name --", "-s moon n -- a", "n https://h extra", "-e A n -- a", "n -x", "{", '{"a": 1}']
)
def test_what_cannot_be_added_says_how_it_is_written(line: str) -> None:
    with pytest.raises(ConfigError):
        parse_add([line] if line.startswith("{") else line.split())


def test_adding_keeps_all_else_in_the_file_and_refuses_a_taken_name(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}, "other": [1]}')
    write_servers("project", tmp_path, tmp_path / "c", [("b", {"command": "y"})])
    data = json.loads(file.read_text())
    assert data == {"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}, "other": [1]}
    with pytest.raises(ConfigError, match="there already"):
        write_servers("project", tmp_path, tmp_path / "c", [("a", {"command": "z"})])
    drop_server("project", tmp_path, tmp_path / "c", "a")
    assert list(json.loads(file.read_text())["mcpServers"]) == ["b"]
    user = write_servers("user", tmp_path, tmp_path / "c", [("a", {"command": "z", "env": {"K": "s"}})])
    assert user.stat().st_mode & 0o777 == 0o600
    write_servers("local", tmp_path, tmp_path / "c", [("l", {"command": "z"})])
    assert [(e.name, e.scope) for e in read_configured(tmp_path, tmp_path / "c").entries] == [
        *(("l", "local"), ("b", "project"), ("a", "user"))
    ]
    drop_server("local", tmp_path, tmp_path / "c", "l")
    assert "projects" not in json.loads(user.read_text()) or not json.loads(user.read_text())["projects"]


def test_a_broken_file_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{broken")
    with pytest.raises(ConfigError, match="stays as it is"):
        write_servers("project", tmp_path, tmp_path, [("b", {"command": "y"})])
    assert (tmp_path / ".mcp.json").read_text() == "{broken"
