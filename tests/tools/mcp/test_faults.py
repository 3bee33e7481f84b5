"""Servers that are missing, slow, silent, dying or odd: the others work, and the reason is told."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.config.mcp import Configured, entry_of
from agent.errors import ConfigError, ToolFailure
from tests.fakes.mcp_server import HttpServer, happened, script, text, tool
from tests.tools.mcp.conftest import MakePool, Told, call, kind, until

PING = [tool("ping")]


async def test_bad_servers_do_not_hold_up_a_good_one_and_each_says_why(
    pools: MakePool, told: Told, tmp_path: Path
) -> None:
    pool = pools(
        {
            "good": script(tmp_path, "good", tools=PING),
            "missing": {"command": "/nonexistent/server"},
            "gone": script(tmp_path, "gone", exit_at_start=[1, "Cannot find module 'x'"]),
            "slow": script(tmp_path, "slow", init_delay=60, tools=PING) | {"start_timeout": 2},
            "wrong": {"url": "ftp://x"},
        }
    )
    assert (await call_when_ready(pool, "good", "mcp__good__ping")).text == "ping was called"
    await until(lambda: all(kind(pool, n) == "failed" for n in ("missing", "gone", "slow", "wrong")))
    states = {s.name: s for s in pool.states()}
    assert "/nonexistent/server" in states["missing"].why
    assert (states["gone"].status, states["gone"].words) == (1, ("Cannot find module 'x'",))
    assert "2 s" in states["slow"].why and "handshake" in states["slow"].why
    assert any("gone" in t and "Cannot find module" in t and "status 1" in t for t in told.texts)


async def call_when_ready(pool: Any, server: str, name: str, arguments: dict[str, Any] | None = None) -> Any:
    """The announcement of the server is taken as told."""
    await until(lambda: kind(pool, server) == "ready")
    pool.notes()
    return await call(pool, name, arguments)


async def test_a_server_that_dies_in_a_call_gives_status_and_last_words_and_comes_back(
    pools: MakePool, tmp_path: Path
) -> None:
    pool = pools({"frail": script(tmp_path, "frail", tools=[tool("go"), tool("ping")], die={"go": [3, "no API key"]})})
    output = await call_when_ready(pool, "frail", "mcp__frail__go")
    assert output.failed and "status 3" in output.text and "no API key" in output.text
    assert (await call(pool, "mcp__frail__ping")).text == "ping was called"
    assert len(happened(tmp_path, "frail", "start")) == 2 and len(happened(tmp_path, "frail", "call")) == 2


async def test_a_silent_call_ends_at_its_limit_and_progress_extends_it(pools: MakePool, tmp_path: Path) -> None:
    entry = script(tmp_path, "mute", tools=[tool("go"), tool("ping")], silent=["go"]) | {"call_timeout": 0.3}
    pool = pools({"mute": entry})
    output = await call_when_ready(pool, "mute", "mcp__mute__go")
    assert output.failed and "no answer within 0.3 s" in output.text
    await until(lambda: any(n["method"] == "notifications/cancelled" for n in happened(tmp_path, "mute", "notified")))
    assert (await call(pool, "mcp__mute__ping")).text == "ping was called"


async def test_a_cancelled_call_is_taken_back_and_the_connection_lives(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({"mute": script(tmp_path, "mute", tools=[tool("go"), tool("ping")], silent=["go"])})
    await until(lambda: kind(pool, "mute") == "ready")
    pool.notes()
    running = asyncio.create_task(call(pool, "mcp__mute__go"))
    await until(lambda: happened(tmp_path, "mute", "call"))
    running.cancel()
    await asyncio.wait([running])
    await until(lambda: any(n["method"] == "notifications/cancelled" for n in happened(tmp_path, "mute", "notified")))
    assert (await call(pool, "mcp__mute__ping")).text == "ping was called"
    assert len(happened(tmp_path, "mute", "start")) == 1


async def test_closing_leaves_neither_stubborn_servers_nor_their_children(pools: MakePool, tmp_path: Path) -> None:
    pool = pools(
        {
            "stubborn": script(tmp_path, "stubborn", tools=PING, stubborn=True),
            "parent": script(tmp_path, "parent", tools=PING, child=True),
        }
    )
    await until(lambda: kind(pool, "stubborn") == kind(pool, "parent") == "ready")
    pids = [server.birth.pid for server in pool._servers.values()]
    await pool.close()
    assert all(pids)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.killpg(pid or 0, 0)


async def test_odd_tools_hide_nothing_and_odd_results_arrive(pools: MakePool, tmp_path: Path) -> None:
    tools = [
        {"name": "bare"},
        {"name": "listed", "inputSchema": ["not", "a", "schema"]},
        {"name": 7},
        tool("strict", outputSchema={"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
        tool("hologram"),
    ]
    holo = {"content": [{"type": "hologram", "data": "H"}, {"type": "text", "text": "beside it"}]}
    pool = pools({"odd": script(tmp_path, "odd", tools=tools, results={"hologram": holo}, junk="Starting up…")})
    assert (await call_when_ready(pool, "odd", "mcp__odd__strict")).text == "strict was called"
    assert [t.name for t in pool.states()[0].tools] == ["bare", "listed", "strict", "hologram"]
    assert (await call(pool, "mcp__odd__hologram")).text.splitlines() == [
        "[content of the kind 'hologram', which cannot be shown]",
        "beside it",
    ]
    assert any("Starting up" in w for w in pool.states()[0].words)


async def test_all_pages_of_a_long_list_are_read(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({"many": script(tmp_path, "many", tools=[tool(f"t{n}") for n in range(25)], pages=10)})
    await until(lambda: kind(pool, "many") == "ready")
    assert len(pool.states()[0].tools) == 25


async def test_a_forgotten_session_is_opened_anew_and_its_new_tools_are_told(pools: MakePool) -> None:
    def rule(server: HttpServer, method: str, params: Any, session: str | None) -> None:
        if method == "tools/call" and session == "S1" and len(server.calls) == 1:
            server.sessions.clear()
            server.tools.append(tool("extra"))

    server = HttpServer([tool("act")], rule)
    try:
        pool = pools({"web": {"url": server.url}})
        first = await call_when_ready(pool, "web", "mcp__web__act")
        second = await call(pool, "mcp__web__act")
        assert not first.failed and second.text.startswith("act was called")
        assert "mcp__web__extra" in second.text and server.seen.count("initialize") == 2
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            (500, {"Content-Type": "text/plain"}, b"database is down"),
            "HTTP 500 Internal Server Error: database is down",
        ),
        ((429, {"Retry-After": "2"}, b"{}"), "HTTP 429"),
        (
            (200, {"Content-Type": "text/html"}, b"<title>Please log in</title>"),
            "text/html instead of JSON: Please log in",
        ),
        ((200, {"Content-Type": "text/event-stream"}, b'data: {"json'), "broke off"),
        ("drop", "broke off"),
    ],
)
async def test_a_bad_answer_is_told_with_its_status_and_the_call_was_made_once(
    pools: MakePool, answer: Any, words: str
) -> None:
    def rule(server: HttpServer, method: str, params: Any, session: str | None) -> Any:
        if method == "tools/call":
            server.calls.append("act")
            return answer
        return None

    server = HttpServer([tool("act")], rule)
    try:
        pool = pools({"web": {"url": server.url}})
        output = await call_when_ready(pool, "web", "mcp__web__act")
        assert output.failed and words in output.text and len(server.calls) == 1
    finally:
        server.stop()


async def test_a_server_that_wants_a_login_is_named_and_not_asked_again(pools: MakePool, told: Told) -> None:
    server = HttpServer([], lambda *_: (401, {"WWW-Authenticate": "Bearer"}, b""))
    try:
        pool = pools({"web": {"url": server.url}})
        await until(lambda: kind(pool, "web") == "login")
        assert "web" in told.texts[0] and "token or a login" in told.texts[0] and len(server.seen) <= 2
    finally:
        server.stop()


async def test_a_server_that_was_away_works_again(pools: MakePool) -> None:
    server = HttpServer([tool("act")])
    try:
        pool = pools({"web": {"url": server.url}})
        assert not (await call_when_ready(pool, "web", "mcp__web__act")).failed
        server.stop()
        server.sessions.clear()
        assert (await call(pool, "mcp__web__act")).failed
        server.start()
        await until(lambda: kind(pool, "web") != "ready" or server.seen)
        await pool.restart("web")
        assert not (await call(pool, "mcp__web__act")).failed
    finally:
        server.stop()


async def test_secrets_go_to_the_server_and_nowhere_else(
    pools: MakePool, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_TOKEN", "s3cret")
    server = HttpServer([tool("act")])
    try:
        pool = pools({"web": {"url": server.url, "headers": {"Authorization": "Bearer ${WEB_TOKEN}"}}})
        await call_when_ready(pool, "web", "mcp__web__act")
        assert server.headers[0]["Authorization"] == "Bearer s3cret"
        assert "s3cret" not in repr(pool.states()) + repr(told.texts) + repr(pool.configured)
    finally:
        server.stop()


async def test_a_project_server_starts_only_after_approval(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({"mine": script(tmp_path, "mine", tools=PING)}, scope="project")
    assert kind(pool, "mine") == "unapproved" and [e.name for e in pool.unapproved()] == ["mine"]
    with pytest.raises(ToolFailure):
        pool._remote("mcp__mine__ping")
    assert (await pool.approve("mine", allowed=True)).kind == "ready"
    again = pools({"mine": script(tmp_path, "mine", tools=PING)}, scope="project")
    await until(lambda: kind(again, "mine") == "ready")
    changed = pools({"mine": script(tmp_path, "mine", tools=PING) | {"env": {"A": "1"}}}, scope="project")
    assert kind(changed, "mine") == "unapproved"
    with pytest.raises(ConfigError, match="no MCP server 'other'"):
        await pool.approve("other", allowed=True)


async def test_progress_reaches_the_screen_and_half_characters_no_one(pools: MakePool, tmp_path: Path) -> None:
    raw = json.loads('{"content": [{"type": "text", "text": "nul \\u0000 lone \\ud800 end"}]}')
    pool = pools({"x": script(tmp_path, "x", tools=[tool("go")], results={"go": raw}, progress={"go": 3})})
    output = await call_when_ready(pool, "x", "mcp__x__go")
    assert output.text == "nul  lone \ufffd end" and output.text.encode()
    assert text("x")["content"]


async def test_a_changed_list_is_told_once_in_the_next_message(pools: MakePool, tmp_path: Path) -> None:
    after = [tool("go", "does something else"), tool("more")]
    pool = pools({"x": script(tmp_path, "x", tools=[tool("go"), tool("old")], becomes={"go": after})})
    await until(lambda: kind(pool, "x") == "ready")
    assert "mcp__x__old" in pool.notes() and pool.notes() == ""
    await call(pool, "mcp__x__go")
    await until(lambda: len(happened(tmp_path, "x", "list")) == 2 and len(pool.states()[0].tools) == 2 and pool._notes)
    notes = pool.notes()
    assert "mcp__x__more" in notes and "gone: mcp__x__old" in notes and "mcp__x__go changed" in notes


async def test_an_entry_that_comes_or_changes_in_mid_run_is_taken_in_and_can_be_reached(
    pools: MakePool, told: Told, tmp_path: Path
) -> None:
    pool = pools({}, scope="project")
    assert pool.reach("[]") == ""

    def found(*faults: str, **more: Any) -> Configured:
        entry = entry_of("mine", script(tmp_path, "mine", tools=PING) | more, "project", tmp_path / ".mcp.json")
        return Configured((entry,), faults=faults)

    await pool.look_anew(found(".mcp.json is not valid JSON"))
    assert kind(pool, "mine") == "unapproved" and pool.reach("[]") == "" and ".mcp.json is not" in told.texts[-1]
    assert (await pool.approve("mine", allowed=True)).kind == "ready"
    before = '[{"function":{"name":"bash"},"type":"function"}]'
    tools = pool.reach(before)
    assert tools.startswith(before[:-1]) and [e["function"]["name"] for e in json.loads(tools)][1:] == [
        "mcp_find",
        "mcp_call",
    ]
    assert pool.reach(tools) == "" and pool.tool("mcp_find") is not None
    await pool.look_anew(found(env={"A": "1"}))
    assert kind(pool, "mine") == "unapproved"
