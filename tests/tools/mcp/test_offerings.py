"""Resources in messages and prompts as commands, from real servers and from ones that misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.commands.base import Ask, Registry, Said
from agent.core.mentions import Mentions
from agent.errors import AgentError, ToolFailure
from agent.forms import FormAsked
from agent.messages import ToolOutput
from agent.protocols import Plan, Tool, ToolContext
from agent.tools.mcp.pool import Pool
from agent.tools.mcp.results import Results
from agent.wiring.offerings import Offerings
from tests.fakes.core import ScriptedModel, open_session
from tests.fakes.mcp_server import script
from tests.tools.mcp.conftest import MakePool, kind, until
from tests.tools.mcp.test_real_servers import node_server, ready

TEXT, BLOB = "demo://resource/dynamic/text/3", "demo://resource/dynamic/blob/4"


def everything(servers: Path) -> dict[str, Any]:
    return {"all": node_server(servers, "mcp-server-everything", "stdio")}


async def look(tool: Tool, params: Any) -> ToolOutput:
    try:
        return await tool.run(params, ToolContext("", Plan("read", ""), lambda _text: None))
    except ToolFailure as failure:
        return ToolOutput(str(failure), failed=True)


def offerings(pool: Pool, tmp_path: Path, session: Any = None) -> tuple[Offerings, Registry]:
    registry = Registry()
    return Offerings(pool, Results(tmp_path / "results"), registry, session), registry


async def test_a_mentioned_resource_is_read_and_a_blob_goes_to_a_file(
    pools: MakePool, servers: Path, tmp_path: Path
) -> None:
    pool = pools(everything(servers), start=False)
    offered, _ = offerings(pool, tmp_path)
    pool.start()  # the mention waits for it
    beside = await Mentions((offered.resources,), look).beside(f"see @all:{TEXT}, and @all:{BLOB}.")
    assert (
        f"[The user mentions all:{TEXT}. It holds:]\n[resource {TEXT}]\nResource 3: This is a plaintext" in beside.text
    )
    file = beside.text.partition("saved as ")[2].partition("]")[0]
    assert Path(file).read_bytes().startswith(b"Resource 4: This is a base64 blob")
    assert [n.level for n in beside.said] == ["info"]


async def test_resources_and_templates_are_offered(pools: MakePool, servers: Path, tmp_path: Path) -> None:
    pool = pools(everything(servers))
    offered, _ = offerings(pool, tmp_path)
    await ready(pool, "all")
    found = await offered.resources.offers("all:")
    assert found[0].name.startswith("all:demo://resource/static/document/") and not found[0].more
    template = next(o for o in found if o.more)
    assert template.name.endswith("/text/") and template.about == "Dynamic Text Resource {resourceId}"
    assert [o.name for o in await offered.resources.offers("startup")] == [
        "all:demo://resource/static/document/startup.md"
    ]
    await offered.close()


async def test_what_a_server_does_not_have_is_said_in_its_own_words(
    pools: MakePool, servers: Path, tmp_path: Path
) -> None:
    pool = pools({**everything(servers), "gone": {"command": "/nonexistent"}})
    offered, _ = offerings(pool, tmp_path)
    said = (await Mentions((offered.resources,), look).beside("@all:demo://nope @gone:x://y @other:z://y")).said
    assert "demo://nope not found" in said[0].text and "/nonexistent" in said[1].text
    assert said[2].text == "There is nothing named other:z://y."


async def test_a_long_resource_is_capped_and_whole_in_a_file(pools: MakePool, tmp_path: Path) -> None:
    words = "a line of text\n" * 5_000
    entry = script(tmp_path, "long", resources={"x://long": [{"uri": "x://long", "text": words}]})
    pool = pools({"long": entry})
    offered, _ = offerings(pool, tmp_path)
    text = (await Mentions((offered.resources,), look).beside("@long:x://long")).text
    file = text.partition("all of it is in ")[2].partition(" …")[0]
    assert len(text) < 21_000 and words.strip() in Path(file).read_text()


async def run(registry: Registry, line: str) -> Any:
    read = registry.read(line)
    assert read is not None
    command = read[0] or await registry.arriving(read[1])
    assert command is not None, f"no command for {line}"
    return await command.run(read[2])


async def test_prompts_become_commands_once_their_server_is_there(
    pools: MakePool, servers: Path, tmp_path: Path
) -> None:
    pool = pools(everything(servers), start=False)
    offered, registry = offerings(pool, tmp_path)
    assert registry.find("mcp__all__simple-prompt") is None
    pool.start()
    asked = await run(registry, "/mcp__all__simple-prompt")
    assert asked == Ask("This is a simple prompt without arguments.", "/mcp__all__simple-prompt")
    for line in ("Rome Lazio", "city=Rome state=Lazio", "state=Lazio Rome", "'Rome' Lazio"):
        asked = await run(registry, f"/mcp__all__args-prompt {line}")
        assert asked.text == "What's weather in Rome, Lazio?" and asked.shown == f"/mcp__all__args-prompt {line}"
    assert (await run(registry, "/mcp__all__args-prompt New York City")).text == "What's weather in New, York City?"
    embedded = await run(registry, "/mcp__all__resource-prompt resourceType=Text resourceId=5")
    assert "[resource demo://resource/dynamic/text/5]\nResource 5" in embedded.text
    await offered.close()


async def test_what_a_prompt_misses_or_has_no_place_for_is_named(
    pools: MakePool, servers: Path, tmp_path: Path
) -> None:
    pool = pools(everything(servers))
    offered, registry = offerings(pool, tmp_path)
    with pytest.raises(AgentError, match=r"needs city: /mcp__all__args-prompt city=… \[state=…\]"):
        await run(registry, "/mcp__all__args-prompt")
    with pytest.raises(AgentError, match="takes no arguments; there is no place for 'a b'"):
        await run(registry, "/mcp__all__simple-prompt a b")
    with pytest.raises(AgentError, match=r"^MCP server all: .*resourceId"):
        await run(registry, "/mcp__all__resource-prompt Text nonsense")
    await offered.close()


async def test_names_and_values_of_arguments_are_completed(pools: MakePool, servers: Path, tmp_path: Path) -> None:
    pool = pools(everything(servers))
    offered, registry = offerings(pool, tmp_path)
    await until(lambda: registry.find("mcp__all__completable-prompt"))
    assert [line for line, _ in registry.completions("/mcp__all__comp")] == ["/mcp__all__completable-prompt"]
    line = "/mcp__all__completable-prompt "
    assert [found for found, _ in registry.completions(line)] == [f"{line}department=", f"{line}name="]
    assert registry.completions(f"{line}department=E") == []  # asked for
    optional = "/mcp__all__args-prompt city=Rome "  # complete: nothing stands between it and Enter
    assert registry.completions(optional) == []
    assert registry.completions(f"{optional}st") == [(f"{optional}state=", "")]
    changed: list[bool] = []
    registry.changed = lambda: changed.append(True)
    await until(lambda: changed)
    assert registry.completions(f"{line}department=E") == [(f"{line}department=Engineering", "")]
    line += "department=Engineering name="
    await until(lambda: registry.completions(line))
    assert (f"{line}Alice", "") in registry.completions(line)  # the first argument narrows the second
    await offered.close()


async def test_a_missing_argument_is_asked_for_in_a_form(pools: MakePool, servers: Path, tmp_path: Path) -> None:
    session = open_session(ScriptedModel())
    pool = pools(everything(servers))
    offered, registry = offerings(pool, tmp_path, lambda: session)
    heard = session.subscribe()
    answers: list[Mapping[str, str]] = [{}, {"city": "Oslo"}]
    await until(lambda: registry.find("mcp__all__args-prompt"))

    async def user() -> None:
        async for event in heard:
            if isinstance(event, FormAsked):
                content = answers.pop()
                assert [(f.name, f.required, f.value) for f in event.form.fields] == [
                    ("city", True, None),
                    ("state", False, "Viken"),
                ]
                session.forms.fill(event.request_id, "send" if content else "cancel", dict(content))

    task = asyncio.create_task(user())
    assert (await run(registry, "/mcp__all__args-prompt state=Viken")).text == "What's weather in Oslo?"
    assert await run(registry, "/mcp__all__args-prompt state=Viken") == Said("/mcp__all__args-prompt was not sent.")
    task.cancel()
    await offered.close()
    await session.close()


async def test_a_list_of_prompts_that_changes_changes_the_commands(pools: MakePool, tmp_path: Path) -> None:
    prompts = [{"name": "old"}, {"name": "stays", "arguments": [{"name": "words", "required": True}]}]
    entry = script(
        tmp_path,
        "p",
        tools=[{"name": "go", "inputSchema": {"type": "object"}}],
        prompts=prompts,
        prompts_become={"go": [prompts[1], {"name": "new"}]},
    )
    pool = pools({"p": entry})
    offered, registry = offerings(pool, tmp_path)
    await until(lambda: registry.find("mcp__p__old"))
    assert (await run(registry, '/mcp__p__stays all of it, "quotes" too')).text == json.dumps(
        {"words": 'all of it, "quotes" too'}
    )
    tool = pool.tool("mcp__p__go")
    assert tool is not None
    await look(tool, tool.params.model_validate({}))
    await until(lambda: registry.find("mcp__p__new"))
    assert registry.find("mcp__p__old") is None and registry.find("mcp__p__stays") is not None
    await offered.close()


async def test_a_prompt_that_never_comes_is_not_waited_for_without_end(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({"bad": script(tmp_path, "bad", exit_at_start=[3, "no"]), "p": script(tmp_path, "p")})
    _, registry = offerings(pool, tmp_path)
    assert await registry.arriving("mcp__bad__x") is None and kind(pool, "bad") == "failed"
    assert await registry.arriving("mcp__p__x") is None and await registry.arriving("mcp__nobody__x") is None
