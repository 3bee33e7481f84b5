"""What a conversation knows of MCP tools: the beginning of its requests never moves, whatever servers do."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from agent.core.session import Session
from agent.errors import ToolsRefused
from agent.events import Notice
from agent.model.calls import LenientCalls
from agent.protocols import ModelRequest
from agent.tools.mcp.mending import dumped, mended, name_of, plainer
from agent.tools.mcp.pool import Pool
from agent.tools.registry import tool_schemas
from tests.fakes.core import ScriptedModel, call, calls, open_session, text
from tests.fakes.mcp_server import script, tool
from tests.fakes.mcp_server import text as result
from tests.tools.mcp.conftest import MakePool, kind, until

BIG = {"type": "object", "properties": {f"field_{n}": {"type": "string", "description": "x" * 60} for n in range(40)}}


def session_of(pool: Pool, model: ScriptedModel) -> Session:
    listed, reach = pool.open_conversation()
    return open_session(model, *reach, tools_json=tool_schemas(reach, listed), reader=LenientCalls(), late=pool)


def grown(requests: list[ModelRequest]) -> bool:
    """Does each request begin with all of the one before?"""
    return all(
        (a.system, a.tools, a.messages) == (b.system, b.tools, b.messages[: len(a.messages)])
        for a, b in itertools.pairwise(requests)
    )


async def say(session: Session, words: str) -> None:
    session.submit(words)
    await session.idle()


async def test_a_late_server_is_announced_in_the_newest_message_and_called_through_mcp_call(
    pools: MakePool, tmp_path: Path
) -> None:
    pool = pools({"late": script(tmp_path, "late", tools=[tool("ping", "answers")])}, start=False)
    model = ScriptedModel(text("hello"), calls(call("mcp_call", tool="mcp__late__ping", arguments={})), text("done"))
    session = session_of(pool, model)
    await say(session, "first")
    pool.start()
    await until(lambda: kind(pool, "late") == "ready")
    await say(session, "second")
    assert model.requests[0].messages[-1].text == "first" and grown(model.requests)
    last = model.requests[1].messages[-1]
    assert last.text.startswith("second\n\n[MCP server late is ready") and "mcp__late__ping: answers" in last.text
    assert model.requests[2].messages[-1].text == "ping was called"
    assert {json.loads(e)["function"]["name"] if isinstance(e, str) else e["function"]["name"]
            for e in json.loads(model.requests[0].tools)} == {"mcp_find", "mcp_call"}  # fmt: skip
    await session.close()


async def test_a_call_of_a_server_that_still_starts_waits_for_it(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({"slow": script(tmp_path, "slow", init_delay=1, tools=[tool("ping")])})
    model = ScriptedModel(calls(call("mcp_call", tool="mcp__slow__ping", arguments={})), text("done"))
    session = session_of(pool, model)
    await say(session, "go")
    assert model.requests[1].messages[-1].text.startswith("ping was called")
    await session.close()


async def test_what_was_known_and_small_stands_in_the_list_of_the_next_conversation(
    pools: MakePool, tmp_path: Path
) -> None:
    entries = {
        "small": script(tmp_path, "small", tools=[tool("ping")]),
        "big": script(tmp_path, "big", tools=[tool("huge", inputSchema=BIG)]),
        "wanted": script(tmp_path, "wanted", tools=[tool("huge", inputSchema=BIG)]) | {"always_load": True},
    }
    first = pools(entries)
    await until(lambda: all(s.kind == "ready" for s in first.states()))
    second = pools(entries, start=False)
    listed, reach = second.open_conversation()
    assert [name_of(e) for e in listed] == ["mcp__small__ping", "mcp__wanted__huge"]
    assert "big (huge)" in reach[0].description
    model = ScriptedModel(calls(call("mcp__small__ping")), text("done"))
    session = session_of(second, model)
    second.start()
    await say(session, "go")  # the call waits for its server
    assert model.requests[1].messages[-1].text == "ping was called" and grown(model.requests)
    await session.close()


async def test_changes_and_deaths_in_mid_session_move_nothing(pools: MakePool, tmp_path: Path) -> None:
    entry = script(
        tmp_path,
        "x",
        tools=[tool("go"), tool("die"), tool("old")],
        becomes={"go": [tool("go"), tool("die"), tool("new")]},
        die={"die": [9, "out of memory"]},
    )
    first = pools({"x": entry})
    await until(lambda: kind(first, "x") == "ready")
    pool = pools({"x": entry})
    model = ScriptedModel(
        calls(call("mcp__x__go")), text("one"), calls(call("mcp__x__die")), text("two"), text("three")
    )
    session = session_of(pool, model)
    await say(session, "first")
    await until(lambda: "new" in {t.name for t in pool.states()[0].tools})
    await say(session, "second")
    await say(session, "third")
    assert grown(model.requests) and len(model.requests) == 5
    said = "\n".join(m.text for m in model.requests[-1].messages)
    assert "mcp__x__new" in said and "gone: mcp__x__old" in said
    assert "status 9" in said and "out of memory" in said
    await session.close()


async def test_twenty_servers_with_four_hundred_tools_leave_the_list_within_its_budget(
    pools: MakePool, tmp_path: Path
) -> None:
    tools = [tool(f"tool_{n}", "does one of many things " * 5) for n in range(20)]
    entries = {f"s{n}": script(tmp_path, f"s{n}", tools=tools) for n in range(20)}
    first = pools(entries)
    await until(lambda: all(s.kind == "ready" for s in first.states()), 60)
    assert sum(len(s.tools) for s in first.states()) == 400
    for share in (0.02, 0.04):
        pool = pools(entries, share=share, start=False)
        listed, reach = pool.open_conversation()
        assert sum(s.tokens for s in pool.states()) <= 32_768 * share * 4
        assert bool(listed) is (share > 0.02) and len(tool_schemas(reach)) < 2_400
    found = await first._search("tool_7 of s3")
    assert found.startswith("mcp__s3__tool_7:") and len(found) < 14_000


async def test_a_search_gives_schemas_and_says_what_there_is_when_nothing_fits(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({"a": script(tmp_path, "a", tools=[tool("ping")]), "b": {"command": "/nonexistent"}})
    found = await pool._search("ping")  # waits for the server
    assert "mcp__a__ping: does something\nparameters: {" in found
    nothing = await pool._search("zebra")
    assert "a: ping" in nothing and "/nonexistent" in nothing


async def test_the_model_may_write_names_and_arguments_loosely(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({"my.srv": script(tmp_path, "m", tools=[tool("do-it")], results={"do-it": result("done it")})})
    await until(lambda: kind(pool, "my.srv") == "ready")
    pool.notes()
    model = ScriptedModel(
        calls(call("mcp_call", tool="do-it", arguments="{}")),
        calls(call("mcp_call", tool="my.srv/do-it", arguments={})),
        calls(call("mcp__my_srv__do-it")),
        calls(call("mcp_call", tool="nothing", arguments={})),
        text("end"),
    )
    session = session_of(pool, model)
    await say(session, "go")
    results = [m.text for m in model.requests[-1].messages if type(m).__name__ == "ToolMessage"]
    assert results[:3] == ["done it"] * 3 and "no MCP tool 'nothing'" in results[3] and "my.srv (ready)" in results[3]
    await session.close()


ODD = {"type": "object", "properties": {"a": {"type": "string", "pattern": "\\S", "maxLength": 100_000}}}
WORSE = {"type": "object", "properties": {"a": {"type": "string", "description": "POISON"}}}


async def test_a_refused_list_is_said_plainer_and_the_tools_at_fault_are_set_aside_by_name(
    pools: MakePool, tmp_path: Path
) -> None:
    tools = [tool("odd", inputSchema=ODD), *(tool(f"fine{n}") for n in range(5)), tool("worse", inputSchema=WORSE)]
    entries = {"x": script(tmp_path, "x", tools=tools) | {"always_load": True}}
    first = pools(entries)
    await until(lambda: kind(first, "x") == "ready")

    class Picky(ScriptedModel):
        def stream(self, request: ModelRequest) -> Any:
            if "pattern" in request.tools or "POISON" in request.tools:
                self.requests.append(request)
                return _refusing()
            return super().stream(request)

    async def _refusing() -> Any:
        raise ToolsRefused("JSON schema conversion failed", 400)
        yield

    model = Picky(text("hello"), text("again"))

    async def accepts(part: str) -> bool:
        return "pattern" not in part and "POISON" not in part

    session = session_of(pools(entries, accepts=accepts), model)
    notices = session.subscribe()
    await say(session, "hi")
    names = [name_of(e) for e in json.loads(model.requests[-1].tools)]
    assert "mcp__x__odd" in names and "mcp__x__fine4" in names and "mcp_call" in names
    assert "mcp__x__worse" not in names and len(model.requests) == 3
    said = [e.text for e in [notices._pending.popleft() for _ in range(len(notices._pending))] if isinstance(e, Notice)]
    assert any("mcp__x__odd" in s and "plainer" in s for s in said)
    assert any("mcp__x__worse" in s and "set aside" in s for s in said)
    await say(session, "more")
    assert model.requests[-1].tools == model.requests[-2].tools
    await session.close()
    third = pools(entries, start=False)
    listed, _ = third.open_conversation()  # remembered: the next conversation begins with what the engine takes
    assert await accepts(dumped(listed)) and len(listed) == 6


async def test_a_refusal_that_no_server_of_ours_caused_stays_one(tmp_path: Path) -> None:
    async def accepts(_part: str) -> bool:
        return False

    assert await mended("", frozenset(), accepts, None) is None  # type: ignore[arg-type]


def test_a_plainer_schema_allows_all_that_the_original_allows() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "additionalProperties": {},
        "properties": {
            "a": {"type": "string", "format": "date-time", "pattern": "(?!x)", "maxLength": 10**5},
            "b": {"$ref": "#/$defs/Q"},
            "c": {"anyOf": [{"type": "number"}]},
            "d": {"$ref": "https://elsewhere/x"},
        },
        "$defs": {"Q": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Q"}, "n": {"type": "integer"}}}},
    }
    plain = plainer({"function": {"name": "t", "parameters": schema}})["function"]["parameters"]
    assert set(plain) == {"type", "properties"}
    assert plain["properties"]["a"] == {"type": "string"} and plain["properties"]["c"] == {"type": "number"}
    assert plain["properties"]["b"]["properties"]["n"] == {"type": "integer"} and plain["properties"]["d"] == {}
    assert "$ref" not in json.dumps(plain)
