"""One server for as long as a run lasts: its task alone opens and closes the connection, tries again after a crash, and
knows why it is not there. Knows no library and no tool list."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent.config.mcp import Entry, Launch, launch_of
from agent.errors import ConfigError
from agent.mcp_servers import McpKind
from agent.tools.mcp.catalogue import Catalogue
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.host import Auth, Birth, Connect, Host, Link, Listed

log = logging.getLogger(__name__)
PAUSES = (1.0, 3.0, 10.0, 30.0, 60.0)  # seconds before a server that had been there is tried again; then it rests
STEADY = 60.0  # seconds of service after which a crash counts as the first one
NOTICED = 6.0  # seconds in which the owner knows how a connection ended: asking, telling and killing included
WATCH = 1.0  # seconds between two looks at the files of a server that is reloaded
FRESH = 2.0  # seconds in which a failed start is not repeated for another call
WORDS_TOLD = 5  # lines of stderr in the result of a call
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Condition:
    """See McpState, which says the same to front ends."""

    kind: McpKind
    phase: str = ""
    why: str = ""
    status: int | None = None
    seconds: float = 0.0
    words: tuple[str, ...] = ()
    again: float | None = None


class McpServer:
    """`connect` is fetched when first needed. `told` hears of each new condition, `listed` of each catalogue, `offered`
    that its prompts or resources may be others than before. `auth`: what signs its requests, None when there is
    nothing."""

    def __init__(
        self,
        entry: Entry,
        host: Host,
        connect: Callable[[], Awaitable[Connect]],
        told: Callable[[McpServer], None],
        listed: Callable[[McpServer, Catalogue], None],
        auth: Callable[[Entry, Launch], Awaitable[Auth | None]],
        offered: Callable[[McpServer, Listed], None],
    ) -> None:
        self.entry = entry
        self.condition = Condition("off")
        self.catalogue: Catalogue | None = None
        self.birth = Birth()
        self._host = host
        self._connect = connect
        self._told = told
        self._listed = listed
        self._auth = auth
        self._offered = offered
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._failed_at = float("-inf")

    # ---- its life
    def start(self) -> None:
        """Does nothing when it is running already."""
        if self._task is None or self._task.done():
            self._enter(Condition("starting", "waiting for its turn"))
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mcp-{self.entry.name}")
            self._task.add_done_callback(_report)
            if self.entry.reload and self._watching is None:
                self._watching = asyncio.get_running_loop().create_task(self._watch())
        self._wake.set()

    async def stop(self, condition: Condition | None = None) -> None:
        tasks = [task for task in (self._task, self._watching) if task is not None]
        self._task = self._watching = None
        for task in tasks:
            task.cancel()
            await asyncio.wait([task])
        self._enter(condition or Condition("off"))

    def rest(self, condition: Condition) -> None:
        """It is not to be started: not approved, switched off, or its entry is wrong."""
        self._enter(condition)

    async def settled(self, within: float) -> Condition:
        """Its condition once it is no longer starting, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self.condition.kind == "starting":
                    self._moved.clear()
                    await self._moved.wait()
        return self.condition

    async def _run(self) -> None:
        crashes = 0
        while True:
            loop = asyncio.get_running_loop()
            began, was_ready = loop.time(), False
            self.birth = Birth()
            self._wake.clear()
            fault = Fault("lost", "the connection ended")
            try:
                async with await self._opening() as link:
                    self.catalogue = await self._list(link)
                    self._link, was_ready = link, True
                    self._enter(Condition("ready", seconds=loop.time() - began))
                    self._listed(self, self.catalogue)
                    self._offered(self, "prompts")
                    self._offered(self, "resources")
                    await link.serve(lambda what: self._changed(link, what))
                    fault = Fault("session", "the session was lost")
            except Fault as found:
                fault = found
            finally:
                self._link = None
            served = loop.time() - began
            if fault.kind == "session" and was_ready and served > 0.5:
                self._enter(Condition("starting", "opening a new session"))
                continue
            crashes = 1 if served > STEADY else crashes + 1
            self._failed_at = loop.time()
            comes_back = was_ready or (fault.kind == "lost" and self.entry.transport != "stdio")
            pause = PAUSES[crashes - 1] if comes_back and crashes <= len(PAUSES) else None
            kind: McpKind = "login" if fault.kind == "login" else "failed"
            phase = "while it was running" if was_ready else self.birth.phase
            words = tuple(self.birth.words)
            why = explained(fault, self.birth, was_ready)
            self._enter(Condition(kind, phase, why, self.birth.status, served, words, pause))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._enter(Condition("starting", "starting it again"))

    async def _watch(self) -> None:
        """A new text of the server counts at once, also where the old one could not start."""
        files = [self._host.folders[0] / self.entry.cwd / word for word in self.entry.command]
        seen = _changes(files)
        while True:
            await asyncio.sleep(WATCH)
            if (now := _changes(files)) != seen:
                seen = now
                if self._link is not None:
                    self._link.lose()
                self._wake.set()

    async def _opening(self) -> contextlib.AbstractAsyncContextManager[Link]:
        try:
            launch = launch_of(self.entry, self._host.env)
        except ConfigError as error:
            raise Fault("config", str(error)) from error
        connect = await self._connect()
        self._enter(Condition("starting", "starting it" if self.entry.transport == "stdio" else "connecting"))
        auth = await self._auth(self.entry, launch) if self.entry.url else None
        return connect(self.entry, launch, self._host, self.birth, auth)

    async def _list(self, link: Link) -> Catalogue:
        try:
            async with asyncio.timeout(self.entry.start_timeout):
                return await link.catalogue()
        except TimeoutError as error:
            limit = f"{self.entry.start_timeout:g}"
            raise Fault("timeout", f"it did not list its tools within {limit} s") from error

    async def _changed(self, link: Link, what: Listed) -> None:
        if what != "tools":
            self._offered(self, what)
        else:
            with contextlib.suppress(Fault):  # a broken connection ends `serve` by itself; the old list stays
                self.catalogue = await self._list(link)
                self._listed(self, self.catalogue)

    def _enter(self, condition: Condition) -> None:
        self.condition = condition
        self._moved.set()
        self._told(self)

    # ---- its use
    async def call(self, tool: str, arguments: Mapping[str, Any], say: Callable[[str], None]) -> Mapping[str, Any]:
        """Raises Fault with all that is known of the reason."""

        async def ask(link: Link) -> Mapping[str, Any]:
            return await link.call(tool, arguments, self.entry.call_timeout, say)

        return await self.use(ask)

    async def use(self, ask: Callable[[Link], Awaitable[T]]) -> T:
        """Waits for the server to be ready. A request is repeated once where HTTP says that nothing was done."""
        for again in (False, True):
            link = await self.ready()
            try:
                return await ask(link)
            except Fault as fault:
                if fault.kind == "session" and not again:
                    link.lose()
                    await self._other_than(link)
                    continue
                if fault.kind == "lost":
                    raise await self._ended(link, fault) from fault
                raise
        raise AssertionError("unreachable")

    async def ready(self) -> Link:
        """Starts it when it is down. Raises Fault when it does not come up in time."""
        fresh = asyncio.get_running_loop().time() - self._failed_at <= FRESH and self.condition.again is None
        if self.condition.kind == "failed" and self._task is not None and not fresh:
            self._enter(Condition("starting", "starting it again"))
            self._wake.set()
        condition = await self.settled(self.entry.start_timeout)
        if self._link is None:
            raise Fault("start", self.reason(condition))
        return self._link

    def reason(self, condition: Condition) -> str:
        """Why it cannot be used, with its last words, for the model and for the user."""
        if condition.kind == "starting":
            return f"it is still starting ({condition.phase})"
        if condition.kind == "unapproved":
            return "the user has not approved it"
        if condition.kind == "off":
            return "it is switched off"
        said = "\n".join(condition.words[-WORDS_TOLD:])
        return f"{condition.why}{f'. Its last words:{chr(10)}{said}' if said else ''}"

    async def _other_than(self, link: Link) -> None:
        """The owner has noticed that this connection is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTICED):
                while self._link is link:
                    self._moved.clear()
                    await self._moved.wait()

    async def _ended(self, link: Link, fault: Fault) -> Fault:
        """The connection broke under a call: the owner learns how the process ended."""
        await self._other_than(link)
        condition = self.condition
        return Fault("lost", self.reason(condition) if condition.kind == "failed" else fault.why)


def explained(fault: Fault, birth: Birth, was_ready: bool) -> str:
    """The reason, with how the process ended where that is the reason."""
    if fault.kind == "lost" and birth.status is not None:
        ending = f"was killed by signal {-birth.status}" if birth.status < 0 else f"ended with status {birth.status}"
        return f"the server {ending}" + ("" if was_ready else " before it was ready")
    return fault.why


def _changes(files: Sequence[Path]) -> list[float]:
    """When each of them was last written; of words that are no files, nothing."""
    return [file.stat().st_mtime for file in files if file.is_file()]


def _report(task: asyncio.Task[None]) -> None:
    """A bug in the owner is logged; the server then stays as it was last seen."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the task of an MCP server", exc_info=error)
