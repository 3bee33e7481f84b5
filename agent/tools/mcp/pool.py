"""All MCP servers of one run, and what of them the running conversation knows. The tool list of a conversation is fixed
when it opens: what was small and known then is in it. All else is reached by mcp_find and mcp_call, and what comes,
changes or goes is told with the newest message, so that no earlier byte ever moves."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from agent.config.mcp import Configured, Entry, Launch, entry_of
from agent.config.mcp_add import write_servers
from agent.config.trust import Trust
from agent.errors import ConfigError, ToolFailure
from agent.mcp_servers import McpState
from agent.messages import ToolOutput
from agent.protocols import Tool
from agent.tools.mcp.adapter import McpCall, McpFind, RemoteTool
from agent.tools.mcp.catalogue import Catalogue, Memory, ServerTool, block_entry, change, tokens_of
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.host import Auth, Connect, Host, Listed
from agent.tools.mcp.mending import Accepts, Refusals, mended, name_of
from agent.tools.mcp.naming import Names, loose
from agent.tools.mcp.results import Results
from agent.tools.mcp.server import Condition, McpServer
from agent.tools.mcp.state import state_of
from agent.tools.mcp.words import announced, fitness, found_list, found_text, removed_text, servers_text
from agent.tools.mcp.workshop import write_server
from agent.tools.registry import tool_schemas

TOGETHER = 4  # times the share of one server is what all servers may take of the context
FIND_WAIT = 15.0  # seconds that a search waits for servers which are still starting
LOGIN = 300.0  # seconds that a login in the browser may take
STOP = 4.5  # seconds for all servers to be gone; each is asked, then told, then killed well within this
LIVE_EVERY = 0.1  # seconds between two progress texts of a call

Level: TypeAlias = Literal["info", "warning", "error"]


def _nothing(_server: McpServer, _what: Listed) -> None:
    pass


class Pool:
    """`connect` is fetched when the first server starts: the library behind it is large. `notice` is for the user.
    `context`: tokens of the model's context, as far as they are known. `accepts`: does the engine take a tool list?
    `offered` hears that a server's prompts or resources may be others than before."""

    def __init__(
        self,
        configured: Configured,
        host: Host,
        *,
        connect: Callable[[], Awaitable[Connect]],
        memory: Memory,
        trust: Trust,
        results: Results,
        context: int,
        notice: Callable[[Level, str], None],
        auth: Callable[[Entry, Launch, Callable[[str], None] | None], Awaitable[Auth | None]],
        refusals: Refusals,
        accepts: Accepts,
    ) -> None:
        self.configured = configured
        self._host = host
        self._connect = connect
        self._memory = memory
        self._trust = trust
        self._results = results
        self._context = context
        self._notice = notice
        self._auth = auth
        self._leading: dict[str, Callable[[str], None]] = {}  # by server: takes the user to its login
        self._refusals = refusals
        self._accepts = accepts
        self.offered: Callable[[McpServer, Listed], None] = _nothing
        self._names = Names()
        self._servers: dict[str, McpServer] = {}
        self._listed: dict[str, Mapping[str, Any]] = {}  # the tool list's entries, by name
        self._known: dict[str, Catalogue] = {}  # what the conversation has been told of each server
        self._notes: list[str] = []
        self._reachable = False  # has the conversation mcp_find and mcp_call?
        self._on: set[str] = set()  # names of servers switched on for this run, and off
        self._off: set[str] = set()
        for entry in configured.entries:
            self._add(entry)

    # ---- servers
    def _add(self, entry: Entry) -> McpServer:
        server = McpServer(entry, self._host, self._connect, self._told, self._arrived, self._signed, self._offered)
        self._servers[entry.name] = server
        server.catalogue = self._memory.recall(entry)
        if entry.fault:
            server.rest(Condition("failed", "reading its entry", entry.fault))
        elif not entry.enabled:
            server.rest(Condition("off"))
        elif not self._approved(entry):
            server.rest(Condition("unapproved"))
        else:
            server.rest(Condition("starting", "waiting for its turn"))
        return server

    @property
    def servers(self) -> Mapping[str, McpServer]:
        """By name, also those that do not run."""
        return self._servers

    def _offered(self, server: McpServer, what: Listed) -> None:
        self.offered(server, what)

    async def _signed(self, entry: Entry, launch: Launch) -> Auth | None:
        return await self._auth(entry, launch, self._leading.get(entry.name))

    def start(self) -> None:
        """All that may run, at once; returns at once. Needs the running loop."""
        for server in self._servers.values():
            if self._may_run(server):
                server.start()

    def _may_run(self, server: McpServer) -> bool:
        entry = server.entry
        wanted = entry.enabled or entry.name in self._on
        return not entry.fault and wanted and entry.name not in self._off and self._approved(entry)

    def _approved(self, entry: Entry) -> bool:
        return entry.scope != "project" or self._trust.allows(entry.thing)

    @property
    def reachable(self) -> bool:
        """Can the running conversation call tools of servers that came after it began?"""
        return self._reachable

    async def look_anew(self, configured: Configured) -> None:
        """Takes in entries that have come or changed since."""
        self._notice("warning", "\n".join(f for f in configured.faults if f not in self.configured.faults))
        self.configured = configured
        for entry in configured.entries:
            known = self._servers.get(entry.name)
            if known is None or (known.entry.digest, known.entry.scope) != (entry.digest, entry.scope):
                if known is not None:
                    await known.stop()
                self._add(entry)
        self.start()

    def unapproved(self) -> tuple[Entry, ...]:
        """Servers of the project that the user has not let run as they are now."""
        return tuple(s.entry for s in self._servers.values() if s.condition.kind == "unapproved")

    async def close(self) -> None:
        stops = [asyncio.ensure_future(server.stop()) for server in self._servers.values()]
        if stops:
            await asyncio.wait(stops, timeout=STOP)

    # ---- the conversation
    def open_conversation(self) -> tuple[list[Mapping[str, Any]], tuple[Tool, ...]]:
        """What a new conversation gets: entries for its tool list, which is fixed from now on, and the two tools that
        reach the rest. Both are empty where no server is configured."""
        self._listed.clear()
        self._known.clear()
        self._notes.clear()
        active = [s for s in self._servers.values() if s.condition.kind not in ("off",) and not s.entry.fault]
        self._reachable = bool(active)
        if not active:
            return [], ()
        room = self._context * self.configured.share * TOGETHER
        for server in active:
            catalogue = server.catalogue
            if catalogue is None or server.condition.kind == "unapproved":
                continue
            offered = [self._refusals.adapted(block_entry(self._name(server, t), t)) for t in catalogue.tools]
            entries = {name_of(e): e for e in offered if e is not None}
            cost = tokens_of(list(entries.values()))
            always = server.entry.always_load
            if always or (cost <= self._context * self.configured.share and cost <= room):
                self._listed |= entries
                room -= 0 if always else cost
            self._known[server.entry.name] = catalogue
        return list(self._listed.values()), self._reaching(active)

    def _reaching(self, servers: Iterable[McpServer]) -> tuple[Tool, ...]:
        about = servers_text([(s.entry.name, s.catalogue, self._is_listed(s)) for s in servers])
        return McpFind(about, self._search), McpCall(self._remote)

    def reach(self, tools: str) -> str:
        """`tools` with those that reach servers at its end, where it lacks them and there is a server; else ""."""
        listed: list[Mapping[str, Any]] = json.loads(tools) if tools else []
        servers = [s for s in self._servers.values() if self._may_run(s)]
        if not servers or any(name_of(entry) == McpFind.name for entry in listed):
            return ""
        self._reachable = True
        return tool_schemas((), [*listed, *json.loads(tool_schemas(self._reaching(servers)))])

    def tool(self, name: str) -> Tool | None:
        """A tool of a server by its name, whether it stands in the tool list or not."""
        if own := next((t for t in self._reaching(()) if self._reachable and t.name == name), None):
            return own
        found = self._find(name)
        return self._remote_of(*found) if found else None

    def notes(self) -> str:
        """What the model should know of changes since it was last told; each once."""
        text = "\n".join(self._notes)
        self._notes.clear()
        return f"[{text}]" if text else ""

    async def mend(self, tools: str) -> tuple[str, str] | None:
        """Another form of a tool list that the engine refuses, and what to tell the user; None when there is none."""
        found = await mended(tools, frozenset(self._listed), self._accepts, self._refusals)
        if found is None:
            return None
        text, told, aside = found
        self._listed = {name: entry for name, entry in self._listed.items() if name not in aside}
        return text, told

    def _is_listed(self, server: McpServer) -> bool:
        tools = server.catalogue.tools if server.catalogue else ()
        return any(self._name(server, t) in self._listed for t in tools)

    def _name(self, server: McpServer, tool: ServerTool) -> str:
        return self._names.of(server.entry.name, tool.name)

    # ---- what servers tell
    def _told(self, server: McpServer) -> None:
        condition, name = server.condition, server.entry.name
        if condition.kind in ("failed", "login"):
            where = f" ({condition.phase})" if condition.phase else ""
            said = f" Its last words: {condition.words[-1]}" if condition.words else ""
            again = f" Trying again in {condition.again:g} s." if condition.again else ""
            step = f" /mcp login {name} opens the browser." if condition.kind == "login" else f" /mcp {name} says more."
            self._notice("warning", f"MCP server {name}{where}: {condition.why}.{said}{again}{step}")

    def _arrived(self, server: McpServer, catalogue: Catalogue) -> None:
        self._memory.keep(server.entry, catalogue)
        known = self._known.get(server.entry.name)
        self._known[server.entry.name] = catalogue
        named = {t.name: (self._name(server, t), t) for t in catalogue.tools}
        if known is None:
            if catalogue.tools:
                self._notes.append(announced(server.entry.name, list(named.values()), catalogue.instructions))
            return
        moved = change(known, catalogue)
        if moved.added:
            self._notes.append(announced(server.entry.name, [named[n] for n in moved.added], "", again=True))
        for name in moved.changed:
            qualified, tool = named[name]
            self._notes.append(f"MCP tool {qualified} changed; call it with mcp_call: {found_text(qualified, tool)}")
        if moved.removed:
            self._notes.append(removed_text([self._names.of(server.entry.name, n) for n in moved.removed]))

    # ---- what the model does
    def _find(self, name: str) -> tuple[McpServer, ServerTool] | None:
        key = self._names.find(name)
        server = self._servers.get(key[0]) if key else None
        tool = server.catalogue.find(key[1]) if server and key and server.catalogue else None
        return (server, tool) if server and tool else None

    def _remote(self, name: str) -> RemoteTool:
        found = self._find(name) or self._find_loosely(name) or self._find_starting(name)
        if found is None:
            states = ", ".join(f"{s.entry.name} ({s.condition.kind})" for s in self._servers.values())
            raise ToolFailure(f"There is no MCP tool {name!r}. Look for it with mcp_find. Servers: {states}.")
        return self._remote_of(*found)

    def _find_starting(self, name: str) -> tuple[McpServer, ServerTool] | None:
        """A tool of a server that has not said yet what it has: the call waits for it."""
        for server in self._servers.values():
            begin = self._names.of(server.entry.name, "")
            if server.condition.kind == "starting" and server.catalogue is None and name.startswith(begin):
                return server, ServerTool(name.removeprefix(begin))
        return None

    def _find_loosely(self, name: str) -> tuple[McpServer, ServerTool] | None:
        """A tool's bare name, or server and tool in another spelling, where that can mean only one."""
        wanted = loose(name.lower().removeprefix("mcp__"))
        fits = [
            (s, t)
            for s in self._servers.values()
            for t in (s.catalogue.tools if s.catalogue else ())
            if wanted in (loose(t.name), loose(f"{s.entry.name}_{t.name}"))
        ]
        return fits[0] if len(fits) == 1 else None

    def _remote_of(self, server: McpServer, tool: ServerTool) -> RemoteTool:
        return RemoteTool(self._name(server, tool), server.entry.name, tool, self._run)

    async def _run(
        self, name: str, tool: str, arguments: Mapping[str, Any], progress: Callable[[str], None]
    ) -> ToolOutput:
        server = self._servers[name]
        last = 0.0

        def say(text: str) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= LIVE_EVERY:
                last = now
                progress(f"{text}\n")

        try:
            output = self._results.output(await server.call(tool, arguments, say), name, tool)
        except Fault as fault:
            output = ToolOutput(f"MCP server {name}: {fault.why}", failed=True)
        notes = self.notes()
        return ToolOutput(f"{output.text}\n\n{notes}", output.display, output.failed) if notes else output

    async def _search(self, query: str) -> str:
        starting = [s for s in self._servers.values() if s.condition.kind == "starting"]
        named = [s for s in starting if s.entry.name.lower() in query.lower()] or starting
        if named:
            await asyncio.gather(*(s.settled(FIND_WAIT) for s in named))
        scored: list[tuple[int, str, ServerTool]] = []
        for server in self._servers.values():
            for tool in server.catalogue.tools if server.catalogue and self._may_run(server) else ():
                name = self._name(server, tool)
                if score := fitness(query, name, tool.description):
                    scored.append((-score, name, tool))
        scored.sort(key=lambda s: s[:2])
        if scored:
            return found_list([(n, t) for _, n, t in scored])
        lines = [
            f"{s.entry.name}: {', '.join(t.name for t in s.catalogue.tools) if s.catalogue else s.reason(s.condition)}"
            for s in self._servers.values()
        ]
        return "\n".join([f"No MCP tool fits {query!r}. There are:", *lines])

    # ---- what commands do
    def states(self) -> tuple[McpState, ...]:
        return tuple(self._state(server) for server in self._servers.values())

    def _state(self, server: McpServer) -> McpState:
        return state_of(server, lambda tool: self._name(server, tool), self._listed, self._host.logs)

    def _named(self, name: str) -> McpServer:
        if name not in self._servers:
            known = ", ".join(self._servers) or "none"
            raise ConfigError(f"There is no MCP server {name!r}; configured: {known}.")
        return self._servers[name]

    async def new(self, name: str) -> tuple[str, McpState]:
        """Writes a server into the project, registers and starts it; the file it is in, and its state."""
        folder = self._host.folders[0]
        if name in self._servers:
            raise ConfigError(f"There is an MCP server {name} already.")
        file, raw = write_server(folder, name)
        source = write_servers("project", folder, folder, [(name, raw)])
        entry = entry_of(name, raw, "project", source)
        self._trust.settle(entry.thing, allowed=True)
        server = self._add(entry)
        server.start()
        await server.settled(entry.start_timeout)
        return str(file), self._state(server)

    async def restart(self, name: str) -> McpState:
        server = self._named(name)
        if not self._may_run(server):
            return self._state(server)
        await server.stop(Condition("starting", "starting it"))
        server.start()
        await server.settled(server.entry.start_timeout)
        return self._state(server)

    async def approve(self, name: str, *, allowed: bool) -> McpState:
        server = self._named(name)
        self._trust.settle(server.entry.thing, allowed=allowed)
        if allowed:
            return await self.restart(name)
        await server.stop(Condition("unapproved"))
        return self._state(server)

    async def switch(self, name: str, *, on: bool) -> McpState:
        server = self._named(name)
        if on:
            self._off.discard(name)
            self._on.add(name)
            return await self.restart(name)
        self._off.add(name)
        await server.stop(Condition("off"))
        return self._state(server)

    async def login(self, name: str, say: Callable[[str], None]) -> McpState:
        server = self._named(name)
        if not server.entry.url:
            raise ConfigError(f"{name} is a program on this machine; only servers behind a URL have a login.")
        self._leading[name] = lambda url: say(f"Log in to {name} in your browser: {url}")
        server.entry = replace(server.entry, start_timeout=LOGIN)
        try:
            return await self.restart(name)
        finally:
            del self._leading[name]
            server.entry = replace(server.entry, start_timeout=self._entry_of(name).start_timeout)

    def _entry_of(self, name: str) -> Entry:
        return self.configured.find(name) or self._servers[name].entry
