"""Resources of MCP servers as things that a message may mention: `@server:uri`. What a server lists, and its templates,
are offered; any address is read, whether it is listed or not, since servers do not list all they have."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Offered, Plan, Tool, ToolContext
from agent.tools.base import Params
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.naming import Names
from agent.tools.mcp.results import NOTHING, Results
from agent.tools.mcp.server import McpServer

PATIENCE = 1.0  # seconds that a completion waits for a server's list; later ones have it
ABOUT = 80  # characters
SENTENCE = ".,;:!?)]}…'"  # at the end of an address: it is meant without


class ResourceParams(Params):
    uri: str


class ReadResource:
    """Of one server. Looks like a tool, so that it is planned and permitted like one; the model does not get it."""

    params: type[BaseModel] = ResourceParams
    description = ""

    def __init__(self, server: McpServer, results: Results) -> None:
        self.name = Names().of(server.entry.name, "resource")
        self._server = server
        self._results = results

    def plan(self, params: ResourceParams) -> Plan:
        return Plan("read", f"{self._server.entry.name}:{params.uri}", tool=self.name)

    async def run(self, params: ResourceParams, ctx: ToolContext) -> ToolOutput:
        name = self._server.entry.name
        try:
            contents = await self._server.use(lambda link: link.read(params.uri))
        except Fault as fault:
            raise ToolFailure(f"MCP server {name}: {fault.why}.") from fault
        return ToolOutput(self._results.bounded(self._results.text(contents, name), name) or NOTHING)


class Resources:
    """`servers`: those of the run, by name."""

    def __init__(self, servers: Mapping[str, McpServer], results: Results) -> None:
        self._servers = servers
        self._results = results
        self._lists: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def find(self, name: str) -> tuple[Tool, BaseModel] | None:
        server, _, uri = name.partition(":")
        if server not in self._servers or not uri or uri[-1] in SENTENCE:
            return None
        return ReadResource(self._servers[server], self._results), ResourceParams(uri=uri)

    def changed(self, server: McpServer) -> None:
        """Its list is no longer what it was."""
        self._lists.pop(server.entry.name, None)
        if task := self._asking.pop(server.entry.name, None):
            task.cancel()

    async def offers(self, written: str) -> Sequence[Offered]:
        for name, server in self._servers.items():
            offers = server.catalogue is not None and server.catalogue.resources
            if server.condition.kind == "ready" and offers and name not in self._asking:
                self._asking[name] = asyncio.get_running_loop().create_task(self._ask(server))
        if unsettled := [t for n, t in self._asking.items() if n not in self._lists and not t.done()]:
            await asyncio.wait(unsettled, timeout=PATIENCE)
        wanted = written.lower()
        found = [offer for name, known in self._lists.items() for one in known if (offer := _offered(name, one))]
        return sorted(
            (o for o in found if wanted in f"{o.name}\n{o.about}".lower()),
            key=lambda o: (not o.name.lower().startswith(wanted), o.more),
        )

    async def _ask(self, server: McpServer) -> None:
        try:
            self._lists[server.entry.name] = await server.use(lambda link: link.resources())
        except Fault:  # it is offered nothing; its name and an address, written in full, say why
            self._lists[server.entry.name] = ()

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _offered(server: str, resource: Mapping[str, Any]) -> Offered | None:
    """Of a template only what stands before its first variable."""
    template = str(resource.get("uriTemplate") or "")
    uri = str(resource.get("uri") or template.partition("{")[0])
    about = str(resource.get("title") or resource.get("name") or "")
    if template:
        about = f"{about} {template[len(uri) :]}"
    if not uri or not uri.isprintable() or '"' in uri:
        return None
    about = " ".join(about.split())
    return Offered(f"{server}:{uri}", about if len(about) <= ABOUT else f"{about[:ABOUT]}…", more=bool(template))
