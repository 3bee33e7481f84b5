"""What older servers need, and what they ask of us: the SSE transport, roots, a page to be opened."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.tools.mcp.host import Elicitation, Elicited
from agent.wiring.elicit import form_of
from tests.fakes.mcp_server import script, tool
from tests.tools.mcp.conftest import MakePool, call, kind, until
from tests.tools.mcp.test_real_servers import node_server, ready


@pytest.fixture
async def sse(servers: Path) -> AsyncIterator[tuple[str, int]]:
    """The address and the process group of a real server that speaks SSE."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [servers / "bin" / "node", servers / "node_modules" / ".bin" / "mcp-server-everything", "sse"]
    with subprocess.Popen(
        program, env={**os.environ, "PORT": str(port)}, stderr=subprocess.PIPE, start_new_session=True
    ) as server:
        assert server.stderr is not None
        async with asyncio.timeout(30):
            while b"running on port" not in await asyncio.to_thread(server.stderr.readline):
                pass
        yield f"http://127.0.0.1:{port}/sse", server.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


async def test_a_server_behind_sse_is_called_and_its_death_is_told(pools: MakePool, sse: tuple[str, int]) -> None:
    url, pid = sse
    pool = pools({"old": {"type": "sse", "url": url}})
    state = await ready(pool, "old")
    assert state.era == "2025-11-25" and "echo" in [t.name for t in state.tools]
    assert (await call(pool, "mcp__old__echo", {"message": "over SSE"})).text == "Echo: over SSE"
    os.killpg(pid, signal.SIGKILL)  # it is started by a program of its own
    output = await call(pool, "mcp__old__echo", {"message": "too late"})
    assert output.failed and output.text.startswith("MCP server old: ")
    await until(lambda: kind(pool, "old") == "failed")


async def test_an_sse_address_where_nobody_is_fails_with_the_reason(pools: MakePool) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/sse"
        pool = pools({"none": {"type": "sse", "url": url}})
        await until(lambda: kind(pool, "none") == "failed")
    assert "onnect" in pool.states()[0].why


async def test_servers_hear_of_the_folders_of_the_project(pools: MakePool, servers: Path, tmp_path: Path) -> None:
    pool = pools({"all": node_server(servers, "mcp-server-everything", "stdio")})
    await ready(pool, "all")
    assert tmp_path.as_uri() in (await call(pool, "mcp__all__get-roots-list")).text


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_page_is_opened_only_with_the_users_word(pools: MakePool, servers: Path, action: str) -> None:
    asked: list[Elicitation] = []

    async def answer(wish: Elicitation) -> Elicited:
        asked.append(wish)
        return Elicited(action)  # type: ignore[arg-type]

    pool = pools({"all": node_server(servers, "mcp-server-everything", "stdio")}, elicit=answer)
    await ready(pool, "all")
    page = {"url": "https://example.com/login", "message": "Log in, please."}
    output = await call(pool, "mcp__all__trigger-url-elicitation", page)
    assert f'"action": "{action}"' in output.text
    form = form_of(asked[0])
    assert "Log in, please." in form.text and "\nhttps://example.com/login\n" in form.text and not form.fields
    assert form.choices[form.default][0] == "cancel"  # an Enter that was meant for something else says nothing


async def test_a_call_that_is_refused_until_a_page_was_opened_is_made_again(pools: MakePool, tmp_path: Path) -> None:
    pages = [{"mode": "url", "message": "Log in, please.", "url": "https://example.com/in", "elicitationId": "1"}]
    asked: list[str] = []
    actions = ["decline", "accept"]

    async def answer(wish: Elicitation) -> Elicited:
        asked.append(wish.url)
        return Elicited(actions.pop(0))  # type: ignore[arg-type]

    entry = script(tmp_path, "x", tools=[tool("go")], wants_pages={"go": [pages, pages]})
    pool = pools({"x": entry}, elicit=answer)
    await ready(pool, "x")
    output = await call(pool, "mcp__x__go")
    assert output.failed and "a page first" in output.text and asked == ["https://example.com/in"]
    assert (await call(pool, "mcp__x__go")).text == "go was called" and len(asked) == 2
