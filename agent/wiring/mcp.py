"""The MCP servers of a run: what is configured, the pool, and the library behind it once it is needed."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent import __version__
from agent.commands.base import Level
from agent.config.mcp import Configured, Entry, Launch, launch_of, read_configured
from agent.config.paths import Paths
from agent.config.trust import Trust
from agent.core.session import Session
from agent.errors import ToolsRefused
from agent.mcp_servers import McpTrial
from agent.messages import UserMessage
from agent.protocols import ModelClient, ModelRequest
from agent.speech import tell
from agent.tools.mcp.catalogue import Memory
from agent.tools.mcp.host import Connect, Elicitation, Elicited, Host
from agent.tools.mcp.mending import Refusals
from agent.tools.mcp.pool import Pool
from agent.tools.mcp.results import Results
from agent.tools.mcp.trial import try_server
from agent.tools.mcp.workshop import PYTHON, write_server
from agent.wiring.elicit import elicit
from agent.wiring.late import LateModel
from agent.wiring.options import Options
from agent.wiring.sampling import Sampler


def results_folder(paths: Paths) -> Path:
    return paths.cache / "mcp" / "results"


def tokens_folder(paths: Paths) -> Path:
    return paths.state / "mcp" / "tokens"


def configured(options: Options, paths: Paths) -> Configured:
    """Raises ConfigError for a file named on the command line that cannot be read."""
    return read_configured(options.folder, paths.config, options.mcp_config)


def build_pool(
    found: Configured,
    options: Options,
    paths: Paths,
    env: Mapping[str, str],
    trust: Trust,
    *,
    context: int,
    notice: Callable[[Level, str], None],
    model: LateModel,
    session: Callable[[], Session] | None,
) -> Pool:
    """Starts nothing. `session`: through which the user can be asked; None: nobody is there. `model` is
    loaded before the library: two imports at once only slow each other."""

    async def ask(wish: Elicitation) -> Elicited:
        assert session is not None
        return await elicit(wish, session())

    folders = (options.folder, *options.extra)
    asking = (ask, Sampler(session, model)) if session else (None, None)
    host = Host(folders, _with_python(env), paths.logs, __version__, *asking)

    async def load_connect() -> Connect:
        """The library takes more than a second to import: in a thread, and only once a server has to be started."""
        await model.ready()
        module = await asyncio.to_thread(importlib.import_module, "agent.tools.mcp.link")
        return module.connect

    async def auth(entry: Entry, launch: Launch, lead: Callable[[str], None] | None) -> Any | None:
        module = await asyncio.to_thread(importlib.import_module, "agent.tools.mcp.login")

        def both(url: str) -> None:
            assert lead is not None
            lead(url)
            webbrowser.open(url)

        return await module.auth_of(entry, launch, tokens_folder(paths), both if lead else None)

    return Pool(
        found,
        host,
        connect=load_connect,
        memory=Memory(paths.cache / "mcp" / "servers"),
        trust=trust,
        results=Results(results_folder(paths)),
        context=context,
        notice=notice,
        auth=auth,
        refusals=Refusals(paths.cache / "mcp" / "refused.json", options.server or options.profile or ""),
        accepts=lambda tools: accepts(model, tools),
    )


def _with_python(env: Mapping[str, str]) -> Mapping[str, str]:
    """Servers of the workshop run on the interpreter that has the library."""
    return {PYTHON: sys.executable, **env}


async def accepts(model: ModelClient, tools: str) -> bool:
    """Does the server take this list? Asked only after it has refused one; costs one token."""
    stream = model.stream(ModelRequest("", tools, (UserMessage("probe", "hi"),), max_tokens=1))
    try:
        async for _ in stream:
            pass
    except ToolsRefused:
        return False
    finally:
        await stream.aclose()
    return True


def run_mcp(arguments: argparse.Namespace, env: Mapping[str, str], write: Callable[[str], None]) -> int:
    """`dflash-agent mcp`. Raises AgentError."""
    from agent.console import mcp

    paths, folder = Paths.from_env(env), Path.cwd()
    results = Results(results_folder(paths))
    host = Host((folder,), _with_python(env), paths.logs, __version__)

    async def attempt(entry: Entry, say: Callable[[str], None], wish: McpTrial) -> bool:
        link = importlib.import_module("agent.tools.mcp.link")
        login = importlib.import_module("agent.tools.mcp.login")
        auth = await login.auth_of(entry, launch_of(entry, env), tokens_folder(paths), None) if entry.url else None
        return await try_server(entry, host, link.connect, results, say, wish, auth)

    trust = Trust(paths.trust)
    bench = mcp.Bench(folder, paths.config, trust, write, tell, attempt, lambda name: write_server(folder, name))
    match arguments.verb:
        case "add":
            return mcp.add(bench, arguments.words)
        case "remove":
            return mcp.remove(bench, arguments.name, arguments.scope)
        case "get":
            return mcp.show(bench, arguments.name, as_json=arguments.json)
        case "new":
            return asyncio.run(mcp.new(bench, arguments.name))
        case "test":
            wish = mcp.trial_of(arguments.call, arguments.arguments, every=arguments.every)
            return asyncio.run(mcp.test(bench, arguments.names, wish))
        case _:
            return mcp.show_all(bench, as_json=arguments.json)
