"""One open connection to an MCP server, through the library. Its exceptions become Fault here and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import mcp_types as types
from mcp import Client, MCPError, UrlElicitationRequiredError
from mcp.client.client import ConnectMode
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent.config.mcp import Entry, Launch, Protocol
from agent.tools.mcp.catalogue import Catalogue
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.host import Auth, Birth, Elicitation, Host, Link, Listed, Sampling
from agent.tools.mcp.lenient import Streams, lenient
from agent.tools.mcp.mapped import FOREIGN, as_fault, in_time, told
from agent.tools.mcp.plain import plain, progress_of, text_of, tool_of
from agent.tools.mcp.stdio import Child, Words, stdio
from agent.tools.mcp.web import Web, web

T = TypeVar("T")
USER_REFUSED = -1  # the protocol's own code where a user does not want what a server asks for
PAGES = 100  # of one list; a server that never ends its list cannot hang us
RELISTEN = 5.0  # seconds until a lost stream of changes is opened again


@asynccontextmanager
async def connect(
    entry: Entry, launch: Launch, host: Host, birth: Birth, auth: Auth | None = None
) -> AsyncGenerator[Link, None]:
    """Raises Fault when no connection comes up in the entry's time, or when it breaks while it is open. `birth` says
    what was seen of it, however it ends."""
    words, child, facts = Words(host.logs / f"mcp-{_file_name(entry.name)}.log"), Child(), Web()
    birth.words = words.lines
    with told(birth, child, facts):
        async with contextlib.AsyncExitStack() as stack:
            async with in_time(entry.start_timeout, birth):
                link = await _opened(stack, entry, launch, host, birth, (words, child, facts), auth)
            yield link


async def _opened(
    stack: contextlib.AsyncExitStack,
    entry: Entry,
    launch: Launch,
    host: Host,
    birth: Birth,
    seen: tuple[Words, Child, Web],
    auth: Auth | None,
) -> OpenLink:
    """A stdio server is greeted in the old way first: a question that it does not know may wake what it starts lazily,
    or end it. One that knows only the new way says so at once."""
    words, child, facts = seen
    link = OpenLink(entry, host, child, words, facts)
    mode = _mode(entry.protocol, entry.transport == "stdio")
    for again in (False, True):
        birth.phase = "starting it" if entry.transport == "stdio" else "connecting"

        def transport() -> contextlib.AbstractAsyncContextManager[Streams]:
            if entry.transport == "stdio":
                return stdio(launch, host.env, host.folders[0], child, words)
            return web(entry, launch, facts, auth)

        client = link.client_of(_phased(lenient(transport(), facts.explain, link.over.set), birth), mode)
        try:
            link.client = await stack.enter_async_context(client)
            break
        except MCPError as error:
            if again or mode != "legacy" or entry.protocol != "auto" or error.code not in _MODERN_ONLY:
                raise
            mode = "auto"
    if entry.protocol == "2026-07-28" and link.client.protocol_version != entry.protocol:
        raise Fault("protocol", f"it speaks {link.client.protocol_version}, and its entry wants {entry.protocol}")
    birth.phase, birth.pid = "listing its tools", child.pid
    return link


_MODERN_ONLY = (types.UNSUPPORTED_PROTOCOL_VERSION, types.METHOD_NOT_FOUND)


def _mode(protocol: Protocol, stdio: bool) -> ConnectMode:
    return "legacy" if protocol == "legacy" or (protocol == "auto" and stdio) else "auto"


@asynccontextmanager
async def _phased(
    transport: contextlib.AbstractAsyncContextManager[Streams], birth: Birth
) -> AsyncGenerator[Streams, None]:
    async with transport as streams:
        birth.phase = "the handshake"
        yield streams


class OpenLink:
    """See `Link`."""

    client: Client

    def __init__(self, entry: Entry, host: Host, child: Child, words: Words, facts: Web) -> None:
        self._entry = entry
        self._host = host
        self._child = child
        self._words = words
        self._facts = facts
        self._lost, self.over = asyncio.Event(), asyncio.Event()  # `over`: nothing more can come through it
        self._changed: asyncio.Queue[Listed] = asyncio.Queue()
        self._limits: set[asyncio.Timeout] = set()
        self._asking = self._calls = 0
        self._questions: set[asyncio.Future[Any]] = set()  # that calls have led to

    def client_of(self, transport: contextlib.AbstractAsyncContextManager[Streams], mode: ConnectMode) -> Client:
        host = self._host
        return Client(
            transport,
            mode=mode,
            message_handler=self._message,
            logging_callback=self._log,
            elicitation_callback=self._elicit if host.elicit else None,
            sampling_callback=self._sample if host.sample and self._entry.sampling else None,
            list_roots_callback=self._roots,
            client_info=types.Implementation(name="dflash-agent", version=host.version),
            cache=None,
        )

    # ---- what it offers
    async def catalogue(self) -> Catalogue:
        client = self.client
        offers = client.server_capabilities
        with as_fault(self._facts):
            tools: list[types.Tool] = []
            async for page in _pages(client.list_tools):
                tools += page.tools
        info = client.server_info
        return Catalogue(
            tuple(tool_of(tool) for tool in tools if self._entry.wants(tool.name)),
            client.protocol_version,
            f"{info.title or info.name} {info.version}".strip() if info else "",
            client.instructions or "",
            offers.resources is not None,
            offers.prompts is not None,
        )

    async def call(
        self, tool: str, arguments: Mapping[str, Any], patience: float, say: Callable[[str], None]
    ) -> Mapping[str, Any]:
        with as_fault(self._facts):
            try:
                return await self._call(tool, arguments, patience, say)
            except MCPError as error:
                if not await self._visited(error):
                    raise
            return await self._call(tool, arguments, patience, say)

    async def _call(
        self, tool: str, arguments: Mapping[str, Any], patience: float, say: Callable[[str], None]
    ) -> Mapping[str, Any]:
        self._calls += 1
        try:
            async with self._limit(patience) as limit:

                async def heard(progress: float, total: float | None, message: str | None) -> None:
                    if not self._asking:
                        limit.reschedule(asyncio.get_running_loop().time() + patience)
                    say(progress_of(progress, total, message))

                return plain(await self.client.call_tool(tool, dict(arguments), progress_callback=heard))
        finally:
            self._calls -= 1
            if not self._calls:
                for question in self._questions:
                    question.cancel()

    async def _visited(self, error: MCPError) -> bool:
        """Has the user opened the pages without which a call is refused?"""
        if error.code != types.URL_ELICITATION_REQUIRED or self._host.elicit is None:
            return False
        pages = UrlElicitationRequiredError.from_error(error.error).elicitations
        for page in pages:
            if (await self._host.elicit(Elicitation(self._entry.name, page.message, url=page.url))).action != "accept":
                return False
        return bool(pages)

    async def resources(self) -> list[Mapping[str, Any]]:
        with as_fault(self._facts):
            async with self._limit(self._entry.start_timeout):
                found: list[Mapping[str, Any]] = []
                async for page in _pages(self.client.list_resources):
                    found += [plain(r) for r in page.resources]
                with contextlib.suppress(MCPError):
                    async for page in _pages(self.client.list_resource_templates):
                        found += [plain(r) for r in page.resource_templates]
        return found

    async def read(self, uri: str) -> list[Mapping[str, Any]]:
        with as_fault(self._facts):
            async with self._limit(self._entry.call_timeout):
                result = await self.client.read_resource(uri)
        return [plain(c) for c in result.contents]

    async def prompts(self) -> list[Mapping[str, Any]]:
        with as_fault(self._facts):
            async with self._limit(self._entry.start_timeout):
                found: list[Mapping[str, Any]] = []
                async for page in _pages(self.client.list_prompts):
                    found += [plain(p) for p in page.prompts]
        return found

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> list[Mapping[str, Any]]:
        with as_fault(self._facts):
            async with self._limit(self._entry.call_timeout):
                result = await self.client.get_prompt(name, dict(arguments))
        return [plain(m) for m in result.messages]

    async def complete(self, prompt: str, argument: str, written: str, known: Mapping[str, str]) -> list[str]:
        if self.client.server_capabilities.completions is None:
            return []
        with as_fault(self._facts):
            async with self._limit(self._entry.start_timeout):
                result = await self.client.complete(
                    types.PromptReference(name=prompt), {"name": argument, "value": written}, dict(known) or None
                )
        return list(result.completion.values)

    # ---- while it is open
    async def serve(self, changed: Callable[[Listed], Awaitable[None]]) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                waits = {
                    asyncio.create_task(self._changed.get()),
                    asyncio.create_task(self._lost.wait()),
                    asyncio.create_task(self._child.gone.wait()),
                    *([asyncio.create_task(self.over.wait())] if self._entry.url else []),
                }
                try:
                    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
                if self._lost.is_set():
                    return
                if self._child.gone.is_set() or (self._entry.url and self.over.is_set()):
                    raise Fault("lost", "it closed the connection")
                for what in {str(task.result()) for task in done}:
                    await changed(what)  # pyright: ignore[reportArgumentType]
        finally:
            listening.cancel()

    def lose(self) -> None:
        self._lost.set()

    async def _listen(self) -> None:
        """The new protocol tells of changes only to who listens; there is no replay, so that each new beginning
        counts as a change."""
        offers = self.client.server_capabilities
        if self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        tools = bool(offers.tools and offers.tools.list_changed)
        prompts = bool(offers.prompts and offers.prompts.list_changed)
        resources = bool(offers.resources and offers.resources.list_changed)
        if not (tools or prompts or resources):
            return
        while True:
            with contextlib.suppress(*FOREIGN):
                async with self.client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                ) as events:
                    async for event in events:
                        self._tell(event)
            await asyncio.sleep(RELISTEN)
            self._changed.put_nowait("tools")
            self._changed.put_nowait("prompts")
            self._changed.put_nowait("resources")

    def _tell(self, event: object) -> None:
        if isinstance(event, ToolsListChanged | types.ToolListChangedNotification):
            self._changed.put_nowait("tools")
        elif isinstance(event, PromptsListChanged | types.PromptListChangedNotification):
            self._changed.put_nowait("prompts")
        elif isinstance(event, ResourcesListChanged | types.ResourceListChangedNotification):
            self._changed.put_nowait("resources")

    async def _message(self, message: IncomingMessage) -> None:
        self._tell(message)

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        data = params.data if isinstance(params.data, str) else repr(params.data)
        self._words.say(f"({params.level}) {data}")

    # ---- what it asks of us
    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        roots = [{"uri": folder.as_uri(), "name": folder.name} for folder in self._host.folders]
        return types.ListRootsResult.model_validate({"roots": roots})

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        assert self._host.elicit is not None
        if isinstance(params, types.ElicitRequestURLParams):
            wish = Elicitation(self._entry.name, params.message, url=params.url)
        else:
            wish = Elicitation(self._entry.name, params.message, params.requested_schema)
        try:
            answer = await self._asked(self._host.elicit(wish))
        except Fault:
            return types.ElicitResult(action="cancel")
        content = dict(answer.content) if answer.action == "accept" and not wish.url else None
        return types.ElicitResult(action=answer.action, content=content)

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        assert self._host.sample is not None
        messages = [(m.role, text_of(plain(m).get("content"))) for m in params.messages]
        wish = Sampling(self._entry.name, messages, params.system_prompt or "", params.max_tokens)
        try:
            answer = await self._asked(self._host.sample(wish))
        except Fault as fault:
            code = USER_REFUSED if fault.kind == "refused" else types.INTERNAL_ERROR
            return types.ErrorData(code=code, message=fault.why)
        content, end = types.TextContent(type="text", text=answer.text), "maxTokens" if answer.cut else "endTurn"
        model = answer.model or "local"
        return types.CreateMessageResult(role="assistant", content=content, model=model, stop_reason=end)

    async def _asked(self, question: Awaitable[T]) -> T:
        """A question to the user. It goes with the calls that may have led to it: raises Fault when they are over."""
        task = asyncio.ensure_future(question)
        if self._calls:
            self._questions.add(task)
        try:
            async with self._user_asked():
                await asyncio.wait([task])
        finally:
            self._questions.discard(task)
            task.cancel()
        if task.cancelled():
            raise Fault("refused", "the call is over")
        return task.result()

    @asynccontextmanager
    async def _user_asked(self) -> AsyncGenerator[None, None]:
        """No call runs out of time while its server waits for the user."""
        self._asking += 1
        for limit in self._limits:
            limit.reschedule(None)
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                for limit in self._limits:
                    limit.reschedule(asyncio.get_running_loop().time() + self._entry.call_timeout)

    @asynccontextmanager
    async def _limit(self, seconds: float) -> AsyncGenerator[asyncio.Timeout, None]:
        try:
            async with asyncio.timeout(seconds) as limit:
                self._limits.add(limit)
                try:
                    yield limit
                finally:
                    self._limits.discard(limit)
        except TimeoutError as error:
            raise Fault("timeout", f"no answer within {seconds:g} s") from error


async def _pages(ask: Callable[..., Awaitable[Any]]) -> AsyncGenerator[Any, None]:
    cursor: str | None = None
    for _ in range(PAGES):
        page = await ask(cursor=cursor)
        yield page
        if not (cursor := page.next_cursor):
            return


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:60]
