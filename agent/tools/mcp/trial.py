"""Tries a server out, step by step, and says of each step how it went."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from agent.config.mcp import Entry, launch_of
from agent.errors import ConfigError
from agent.mcp_servers import McpTrial
from agent.tools.mcp.catalogue import Catalogue, ServerTool, block_entry, tokens_of
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.host import Birth, Connect, Host, Link
from agent.tools.mcp.naming import Names
from agent.tools.mcp.results import Results
from agent.tools.mcp.sample import sample
from agent.tools.mcp.server import Condition, explained

FIRST_LINE = 100  # characters of a result that are shown


async def try_server(
    entry: Entry,
    host: Host,
    connect: Connect,
    results: Results,
    say: Callable[[str], None],
    wish: McpTrial,
    auth: Any = None,
) -> bool:
    """Did all that was tried work? A tool that answers with an error of its own has been reached: that counts as
    working unless it was asked for by name."""
    birth, began = Birth(), time.monotonic()
    if entry.fault:
        say(f"✗ entry: {entry.fault}")
        return False
    say(f"  {entry.scope}: {entry.target}")
    try:
        launch = launch_of(entry, host.env)
    except ConfigError as error:
        say(f"✗ entry: {error}")
        return False
    try:
        async with connect(entry, launch, host, birth, auth) as link:
            async with asyncio.timeout(entry.start_timeout):
                catalogue = await link.catalogue()
            say(
                f"✓ started and greeted in {time.monotonic() - began:.1f} s{f' (pid {birth.pid})' if birth.pid else ''}"
            )
            say(f"✓ {catalogue.title or 'it gives no name'}, protocol {catalogue.era}")
            await _lists(link, catalogue, entry, say)
            return await _calls(link, catalogue, entry, results, say, wish)
    except Fault as fault:
        condition = Condition("failed", birth.phase, explained(fault, birth, False), birth.status)
        say(f"✗ {condition.phase or 'starting it'}, after {time.monotonic() - began:.1f} s: {condition.why}")
        for line in birth.words:
            say(f"    {line}")
    except TimeoutError:
        say(f"✗ listing its tools: no answer within {entry.start_timeout:g} s")
    return False


async def _lists(link: Link, catalogue: Catalogue, entry: Entry, say: Callable[[str], None]) -> None:
    names = Names()
    entries = [block_entry(names.of(entry.name, t.name), t) for t in catalogue.tools]
    say(f"✓ {len(catalogue.tools)} tools, ≈{tokens_of(entries):,} tokens: {', '.join(t.name for t in catalogue.tools)}")
    for offered, ask, what in (
        (catalogue.resources, link.resources, "resources"),
        (catalogue.prompts, link.prompts, "prompts"),
    ):
        if offered:
            try:
                found = await ask()
                say(f"✓ {len(found)} {what}{': ' if found else ''}{', '.join(str(f.get('name')) for f in found[:12])}")
            except Fault as fault:
                say(f"✗ {what}: {fault.why}")


async def _calls(
    link: Link, catalogue: Catalogue, entry: Entry, results: Results, say: Callable[[str], None], wish: McpTrial
) -> bool:
    if wish.tool:
        tool = catalogue.find(wish.tool)
        if tool is None:
            say(f"✗ there is no tool {wish.tool!r}")
            return False
        return await _call(link, tool, wish.arguments or sample(tool.schema), entry, results, say) == "ok"
    fine = True
    for tool in catalogue.tools:
        if not wish.every and tool.hints.get("readOnlyHint") is not True:
            say(f"– {tool.name}: not called, it does not say that it only reads")
            continue
        ended = await _call(link, tool, sample(tool.schema), entry, results, say)
        fine = fine and (ended == "ok" if wish.every else ended != "broken")
    return fine


async def _call(
    link: Link,
    tool: ServerTool,
    arguments: Mapping[str, Any],
    entry: Entry,
    results: Results,
    say: Callable[[str], None],
) -> str:
    given = json.dumps(arguments, ensure_ascii=False)
    began = time.monotonic()
    try:
        result = await link.call(tool.name, arguments, entry.call_timeout, lambda _text: None)
    except Fault as fault:
        if fault.kind == "lost":
            raise
        say(f"✗ {tool.name} {given}: {fault.why}")
        return "broken" if fault.kind in ("timeout", "protocol") else "refused"
    output = results.output(result, entry.name, tool.name)
    line = " ".join(output.text.split())
    line = line if len(line) <= FIRST_LINE else f"{line[:FIRST_LINE]}…"
    say(f"{'!' if output.failed else '✓'} {tool.name} {given}, {time.monotonic() - began:.1f} s: {line}")
    return "refused" if output.failed else "ok"
