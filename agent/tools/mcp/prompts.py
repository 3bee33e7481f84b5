"""Prompts of MCP servers: which there are, as servers come and change, and the message that each makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from agent.config.foreign import mapping
from agent.errors import AgentError
from agent.mcp_servers import McpArgument, McpPrompt
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.naming import Names
from agent.tools.mcp.results import Results
from agent.tools.mcp.server import McpServer

VALUES = 100  # answers to completions that are kept


class Prompts:
    """`servers`: those of the run, by name. `listed` hears of all prompts of one server, each time they are listed;
    `known` that values of an argument have come."""

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        results: Results,
        listed: Callable[[str, Sequence[McpPrompt]], None],
        known: Callable[[], None],
    ) -> None:
        self._servers = servers
        self._results = results
        self._listed = listed
        self._known = known
        self._names = Names()
        self._listing: dict[str, asyncio.Task[None]] = {}
        self._values: dict[tuple[str, str, str, str], Sequence[str]] = {}
        self._asking: asyncio.Task[None] | None = None

    def refresh(self, server: McpServer) -> None:
        """Asks it anew; needs the running loop."""
        if server.catalogue is None or not server.catalogue.prompts:
            return
        if task := self._listing.get(server.entry.name):
            task.cancel()
        self._listing[server.entry.name] = asyncio.get_running_loop().create_task(self._list(server))

    async def _list(self, server: McpServer) -> None:
        try:
            found = await server.use(lambda link: link.prompts())
        except Fault:  # what was known of it stays; using it says why
            return
        self._listed(server.entry.name, [self._prompt(server.entry.name, one) for one in found if one.get("name")])

    def _prompt(self, server: str, given: Mapping[str, Any]) -> McpPrompt:
        name, arguments = str(given["name"]), given.get("arguments")
        wanted = [mapping(a) for a in cast("list[Any]", arguments)] if isinstance(arguments, list) else []
        about = " ".join(str(given.get("description") or given.get("title") or "").split())
        fields = tuple(
            McpArgument(str(a["name"]), str(a.get("description") or ""), a.get("required") is True)
            for a in wanted
            if a.get("name")
        )
        return McpPrompt(server, name, self._names.of(server, name), about, fields)

    async def coming(self, name: str) -> None:
        """Waits until servers that may have a prompt of this name have listed theirs, or have failed."""
        fits = [s for s in self._servers.values() if name.startswith(self._names.of(s.entry.name, ""))]
        await asyncio.gather(*(s.settled(s.entry.start_timeout) for s in fits))
        await asyncio.sleep(0)  # who is ready has just said so
        if tasks := [t for s in fits if (t := self._listing.get(s.entry.name)) is not None]:
            await asyncio.wait(tasks)

    async def text(self, prompt: McpPrompt, arguments: Mapping[str, str]) -> str:
        """The message. Raises AgentError."""
        try:
            messages = await self._servers[prompt.server].use(lambda link: link.prompt(prompt.name, arguments))
        except Fault as fault:
            raise AgentError(f"MCP server {prompt.server}: {fault.why}.") from fault
        name = f"{prompt.server}-{prompt.name}"
        several = any(m.get("role") != "user" for m in messages)
        parts: list[str] = []
        for message in messages:
            content = message.get("content")
            blocks = cast("list[Any]", content) if isinstance(content, list) else [content]
            text = self._results.text(blocks, name)
            parts.append(f"[{message.get('role')}]\n{text}" if several else text)
        if not (whole := self._results.bounded("\n\n".join(parts), name)):
            raise AgentError(f"MCP server {prompt.server} made an empty message of its prompt {prompt.name}.")
        return whole

    def values(self, prompt: McpPrompt, argument: str, written: str, given: Mapping[str, str]) -> Sequence[str]:
        """What the server said may be meant; asked for when it is not known, and told by `known` once it is."""
        key = (prompt.qualified, argument, written, repr(sorted(given.items())))
        if key not in self._values and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._ask(key, prompt, given))
        return self._values.get(key, ())

    async def _ask(self, key: tuple[str, str, str, str], prompt: McpPrompt, given: Mapping[str, str]) -> None:
        server = self._servers[prompt.server]
        _, argument, written, _ = key
        self._values[key] = ()
        if server.condition.kind == "ready":
            try:
                self._values[key] = await server.use(lambda link: link.complete(prompt.name, argument, written, given))
            except Fault:
                return
        while len(self._values) > VALUES:
            del self._values[next(iter(self._values))]
        self._known()

    async def close(self) -> None:
        tasks = [*self._listing.values(), *([self._asking] if self._asking else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
