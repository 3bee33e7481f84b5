"""/mcp over real servers: what there is, why one is not there, and what it does about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.commands.base import Command, Said
from agent.commands.mcp import NONE, mcp_command
from agent.config.trust import Trust
from agent.errors import ConfigError
from agent.tools.mcp.pool import Pool
from tests.fakes.mcp_server import script, tool
from tests.tools.mcp.conftest import MakePool, kind, pools, told, until

__all__ = ["pools", "told"]  # fixtures


def command(pool: Pool, said: list[str] | None = None) -> Command:
    return mcp_command(lambda: pool, (said if said is not None else []).append)


async def run(pool: Pool, words: str = "") -> str:
    answer = await command(pool).run(words)
    assert isinstance(answer, Said)
    return answer.text


async def test_without_servers_it_says_how_to_get_one(pools: MakePool) -> None:
    assert await run(pools({})) == NONE


async def test_all_servers_stand_there_with_their_state_and_cost(pools: MakePool, tmp_path: Path) -> None:
    entries = {
        "good": script(tmp_path, "good", tools=[tool("ping"), tool("pong")]),
        "bad": script(tmp_path, "bad", exit_at_start=[3, "no module named x"]),
        "off": {"command": "x", "enabled": False},
    }
    pool = pools(entries)
    await until(lambda: kind(pool, "good") == "ready" and kind(pool, "bad") == "failed")
    text = await run(pool)
    assert "ready      good: fake 1, 2 tools, reached by mcp_find and mcp_call (" in text
    assert "failed     bad: the server ended with status 3 before it was ready (" in text
    assert "             no module named x" in text and "off        off: /mcp on off starts it" in text
    assert text.endswith("2 tools; ≈0 tokens of the tool list are theirs. /mcp NAME says more of one.")


async def test_one_server_is_told_with_tools_claims_and_last_words(pools: MakePool, tmp_path: Path) -> None:
    tools = [
        tool("ping", "answers", annotations={"readOnlyHint": True}),
        tool("drop", annotations={"destructiveHint": True}),
    ]
    pool = pools(
        {"good": script(tmp_path, "good", tools=tools), "bad": script(tmp_path, "bad", exit_at_start=[3, "why"])}
    )
    await until(lambda: kind(pool, "good") == "ready" and kind(pool, "bad") == "failed")
    good, bad = await run(pool, "good"), await run(pool, "bad")
    assert "  mcp__good__ping (read-only, it says), by mcp_call: answers" in good
    assert "  mcp__good__drop (destructive, it says), by mcp_call: does something" in good
    assert "protocol 2025-11-25" in good
    assert "  exit status 3\n  its last lines:\n    why\n  all of stderr: " in bad
    assert Path(bad.rpartition("all of stderr: ")[2]).read_text().rstrip().endswith("why")


async def test_a_server_is_switched_off_on_and_restarted(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({"good": script(tmp_path, "good", tools=[tool("ping")])})
    await until(lambda: kind(pool, "good") == "ready")
    first = pool.servers["good"].birth.pid
    assert await run(pool, "off good") == "off        good: /mcp on good starts it" and kind(pool, "good") == "off"
    assert (await run(pool, "on good")).startswith("ready      good: ")
    second = pool.servers["good"].birth.pid
    assert (await run(pool, "restart good")).startswith("ready      good: ")
    assert len({first, second, pool.servers["good"].birth.pid}) == 3


async def test_a_server_of_the_project_waits_for_a_word_and_a_refusal_ends_it(pools: MakePool, tmp_path: Path) -> None:
    trust = Trust(tmp_path / "trust.json")
    pool = pools({"p": script(tmp_path, "p", tools=[tool("ping")])}, scope="project", trust=trust)
    assert "it came with the project; /mcp approve p starts " in await run(pool) and kind(pool, "p") == "unapproved"
    assert (await run(pool, "approve p")).startswith("ready      p: ") and trust.allows(pool.servers["p"].entry.thing)
    assert (await run(pool, "refuse p")).startswith("unapproved p: ")
    assert trust.verdict(pool.servers["p"].entry.thing) == "refused"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("nobody", "There is no MCP server 'nobody'; configured: good"),
        ("restart", "needs the name of one server"),
        ("off good more", "needs the name of one server"),
        ("restart nobody", "There is no MCP server 'nobody'"),
        ("login good", "only servers behind a URL have a login"),
        ("new good", "There is an MCP server good already"),
    ],
)
async def test_what_cannot_be_done_is_one_sentence(pools: MakePool, tmp_path: Path, words: str, says: str) -> None:
    pool = pools({"good": script(tmp_path, "good")}, start=False)
    with pytest.raises(ConfigError, match=says):
        await command(pool).run(words)


async def test_names_and_verbs_are_completed(pools: MakePool, tmp_path: Path) -> None:
    found = command(pools({"good": script(tmp_path, "good")}, start=False)).complete
    assert list(found("")) == ["good", "new", "restart", "approve", "refuse", "on", "off", "login"]
    assert list(found("re")) == ["restart", "refuse"] and list(found("restart g")) == ["restart good"]
