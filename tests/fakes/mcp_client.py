"""The pool as the client that the conformance suite tests: connects to the URL it is given, logs in where a login is
wanted (a browser that agrees to everything), and calls what the suite names, or every tool once."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from agent.config.mcp import Configured, Entry, Launch, entry_of
from agent.config.trust import Trust
from agent.protocols import ToolContext
from agent.tools.mcp.catalogue import Catalogue, Memory
from agent.tools.mcp.host import Connect, Elicitation, Elicited, Host
from agent.tools.mcp.link import connect
from agent.tools.mcp.login import auth_of
from agent.tools.mcp.mending import Refusals
from agent.tools.mcp.pool import Pool
from agent.tools.mcp.results import Results
from agent.tools.mcp.sample import sample


async def elicit(wish: Elicitation) -> Elicited:
    fields = wish.schema.get("properties", {})
    return Elicited("accept", {name: field["default"] for name, field in fields.items() if "default" in field})


def browser(url: str) -> None:
    thread = threading.Thread(target=lambda: httpx2.get(url, follow_redirects=True, trust_env=False), daemon=True)
    thread.start()


async def main(url: str, home: Path) -> int:
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    oauth = {"clientId": given.get("client_id", ""), "clientSecret": given.get("client_secret", "")}
    entry = entry_of("suite", {"url": url, "oauth": oauth}, "flag", home)

    async def ready() -> Connect:
        return connect

    async def auth(entry: Entry, launch: Launch, _lead: Callable[[str], None] | None) -> Any:
        return await auth_of(entry, launch, home / "tokens", browser)

    async def accepts(_tools: str) -> bool:
        return True

    pool = Pool(
        Configured((entry,)),
        Host((home,), dict(os.environ), home / "logs", "0", elicit),
        connect=ready,
        memory=Memory(home / "memory"),
        trust=Trust(home / "trust.json"),
        results=Results(home / "results"),
        context=32_768,
        notice=lambda level, text: print(text, file=sys.stderr),
        auth=auth,
        refusals=Refusals(home / "refused.json", ""),
        accepts=accepts,
    )
    pool.open_conversation()
    pool.start()
    try:
        await pool._servers["suite"].settled(30)
        state = pool.states()[0]
        schemas = {t.name: t.schema for t in (pool._servers["suite"].catalogue or Catalogue()).tools}
        calls = [(c["name"], c["arguments"]) for c in given.get("toolCalls", ())]
        if "json_schema_echo" in schemas:  # it wants to hear what we make of the other tool's schema
            calls.append(("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]}))
        for name, arguments in calls or [(name, sample(schema)) for name, schema in schemas.items()]:
            remote = pool.tool(next(t.qualified for t in state.tools if t.name == name))
            assert remote
            params = remote.params.model_validate(arguments)
            await remote.run(params, ToolContext("c", remote.plan(params), lambda _text: None))
        return 0 if state.kind == "ready" else 1
    finally:
        await pool.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1], Path(sys.argv[1]))))
