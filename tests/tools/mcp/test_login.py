"""A login in the browser: only when asked for, kept for the user alone, said plainly when it is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent.config.mcp import entry_of, launch_of
from agent.errors import ConfigError
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.login import TokenFile, WayBack, auth_of
from tests.fakes.mcp_server import HttpServer, script, tool
from tests.tools.mcp.conftest import MakePool, kind, until


async def test_nobody_is_led_anywhere_without_having_asked(tmp_path: Path) -> None:
    entry = entry_of("web", {"url": "http://127.0.0.1:1/mcp"}, "user", tmp_path)
    assert await auth_of(entry, launch_of(entry, {}), tmp_path, None) is None
    own = entry_of("web", {"url": "http://127.0.0.1:1/mcp", "headers": {"authorization": "Bearer x"}}, "user", tmp_path)
    assert await auth_of(own, launch_of(own, {}), tmp_path, print) is None


async def test_tokens_are_the_users_alone_and_go_with_a_new_login(tmp_path: Path) -> None:
    from mcp.shared.auth import OAuthToken

    store = TokenFile(tmp_path / "tokens", "http://h/mcp")
    assert await store.get_tokens() is None and not store.known
    await store.set_tokens(OAuthToken(access_token="s3cret"))
    file = next((tmp_path / "tokens").iterdir())
    assert file.stat().st_mode & 0o777 == 0o600 and (tmp_path / "tokens").stat().st_mode & 0o777 == 0o700
    assert "h" not in file.stem or "mcp" not in file.name
    found = await TokenFile(tmp_path / "tokens", "http://h/mcp").get_tokens()
    assert found and found.access_token == "s3cret"
    store.forget()
    assert not store.known


@pytest.mark.parametrize(
    ("query", "outcome"),
    [("code=abc&state=s&iss=i", "abc"), ("error=access_denied&error_description=No+thanks", "No thanks")],
)
async def test_the_browser_comes_back_with_a_code_or_a_refusal(query: str, outcome: str) -> None:
    back = WayBack()
    await back.open(0)
    waiting = asyncio.create_task(back.wait())
    async with httpx2.AsyncClient(trust_env=False) as browser:
        assert "Nothing was waiting" in (await browser.get(back.address + "?x=1")).text
        page = (await browser.get(f"{back.address}?{query}")).text
    if outcome == "abc":
        result = await waiting
        assert (result.code, result.state, result.iss) == ("abc", "s", "i") and "Logged in" in page
    else:
        with pytest.raises(Fault, match=outcome):
            await waiting


async def test_a_login_that_cannot_be_had_says_why(pools: MakePool, tmp_path: Path) -> None:
    refusing: Any = lambda *_: (401, {"WWW-Authenticate": "Bearer"}, b"")  # noqa: E731
    server = HttpServer([tool("act")], refusing)
    said: list[str] = []
    try:
        pool = pools({"web": {"url": server.url}, "local": script(tmp_path, "local", tools=[])})
        await until(lambda: kind(pool, "web") == "login")
        state = await pool.login("web", said.append)
        assert state.kind == "login" and "the login failed" in state.why
        with pytest.raises(ConfigError, match="only servers behind a URL"):
            await pool.login("local", said.append)
    finally:
        server.stop()
