"""The composition root: the one place that knows the concrete classes, and the only one with imports inside functions
(the screen must paint before openai has been imported)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import logging
import logging.handlers
import os
import stat
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config.paths import Paths
from agent.core.permissions import Mode
from agent.errors import AgentError, BadReply, ConfigError, Looping, ServerUnavailable, Stalled
from agent.events import DurableEvent, ServerState
from agent.protocols import FinishChunk, Journal, ModelChunk, ModelClient, ModelRequest, Server, Tool
from agent.speech import tell

if TYPE_CHECKING:
    from agent.config.profile import ModelSource, Profile
    from agent.core.session import Session
    from agent.headless import OutputFormat
    from agent.runtime.metrics import Totals
    from agent.runtime.record import Home
    from agent.runtime.supervisor import Supervisor

LOG_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said. `profile` None: the default. `server`: URL to attach to."""

    folder: Path
    extra: tuple[Path, ...] = ()
    profile: str | None = None
    speculation: bool = True
    ctx: int | None = None
    server: str | None = None
    mode: Mode = "ask"
    max_turns: int | None = None
    resume: str | None = None
    resume_last: bool = False
    offline: bool = False


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class LateModel:
    """The model client, imported in a thread when first needed: importing openai costs more than the first paint.
    `suspect` hears of every fault that may be the server's; `totals` are the counters of one that says nothing of
    drafting in its replies."""

    def __init__(
        self,
        build: Callable[[], ModelClient],
        suspect: Callable[[str], None],
        totals: Callable[[], Awaitable[Totals | None]] | None = None,
    ) -> None:
        self._build = build
        self._suspect = suspect
        self._totals = totals
        self._client: asyncio.Task[ModelClient] | None = None

    async def ready(self) -> ModelClient:
        if self._client is None:
            self._client = asyncio.get_running_loop().create_task(asyncio.to_thread(self._build))
        return await asyncio.shield(self._client)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        stream = (await self.ready()).stream(request)
        before = await self._totals() if self._totals else None
        try:
            async for chunk in stream:
                if before is not None and isinstance(chunk, FinishChunk):
                    chunk = await self._with_drafts(chunk, before)
                yield chunk
        except (ServerUnavailable, Stalled, BadReply, Looping) as fault:
            self._suspect(str(fault))
            raise
        finally:
            await stream.aclose()

    async def _with_drafts(self, end: FinishChunk, before: Totals) -> FinishChunk:
        from agent.runtime.metrics import drafts_between

        after = await self._totals() if self._totals else None
        found = drafts_between(before, after, end.usage.generated_tokens or 0) if after else None
        if found is None or end.timings.draft_n is not None:
            return end
        drafted, accepted = found
        timings = replace(
            end.timings,
            draft_n=drafted,
            draft_n_accepted=accepted,
            predicted_n=end.timings.predicted_n or end.usage.generated_tokens,
        )
        return replace(end, timings=timings)


class Parts:
    """All that one run of the product owns. `open_session` needs the running loop; `close` ends what was started."""

    def __init__(self, options: Options, env: Mapping[str, str], *, can_ask: bool) -> None:
        from agent.store.archive import FileArchive
        from agent.tools.process import ProcessBook
        from agent.workspace.paths import Workspace

        self.options = options
        self.env = env
        self.paths = Paths.from_env(env)
        _log_to(self.paths.logs / "dflash-agent.log")
        self.archive = FileArchive(self.paths.sessions)
        self.profile: Profile | None = None
        if not options.server:
            self.profile = _profile(options, self.paths)
        self.workspace = Workspace(options.folder, options.extra)
        self.book = ProcessBook()
        self.can_ask = can_ask
        self.session: Session | None = None
        self._totals: Callable[[], Awaitable[Totals | None]] | None = None
        self.server: Server = self._server()
        self.model = LateModel(self._client, self.server.suspect, self._totals)
        self._warming: asyncio.Task[Any] | None = None

    # ---- building
    def _server(self) -> Server:
        if self.options.server:
            from agent.runtime.attached import Attached

            attached = Attached(self.options.server, self.env, self._publish, self.options.ctx)
            self._totals = attached.totals
            return attached
        from agent.runtime.record import Home

        assert self.profile is not None
        home = Home.of(self.paths.state, self.profile)
        return _supervisor(self.profile, home, self.paths, self.env, self.options.offline, self._publish)

    def _client(self) -> ModelClient:
        from agent.model.client import OpenAIModel

        for name in [n for n in os.environ if n.startswith("OPENAI_")]:
            del os.environ[name]  # the library reads keys, addresses and headers of a cloud from there
        return OpenAIModel(self.server.ensure_ready)

    def _publish(self, state: ServerState) -> None:
        if self.session is not None:
            self.session.server_changed(state)

    def open_session(self) -> Session:
        """Raises ConfigError when the session to resume is not there."""
        from agent.core.session import Session
        from agent.model.repair import repair_arguments
        from agent.prompt.instructions import read_instructions
        from agent.prompt.system import build_system_prompt
        from agent.tools.registry import build_tools, tool_schemas

        tools: tuple[Tool, ...] = build_tools(self.workspace, self.env, self.paths.logs, self.book)
        journal, past = self._journal()
        instructions = read_instructions(self.options.folder, self.paths.config)
        self.session = Session(
            model=self.model,
            tools=tools,
            tools_json=tool_schemas(tools),
            system=build_system_prompt(self.options.folder, instructions),
            journal=journal,
            clock=SystemClock(),
            repair=repair_arguments,
            past=past,
            mode=self.options.mode,
            can_ask=self.can_ask,
            max_steps=self.options.max_turns,
            max_tokens=self.profile.reply_limit if self.profile else None,
        )
        self.session.server_changed(self.server.state)
        self._warming = asyncio.get_running_loop().create_task(self._warm())
        return self.session

    def _journal(self) -> tuple[Journal, tuple[DurableEvent, ...]]:
        resume = self.options.resume
        if self.options.resume_last:
            here = self.archive.list(self.options.folder)
            if not here:
                raise ConfigError("No session to continue in this folder; start one without -c.")
            resume = here[0].id
        if resume is None:
            return self.archive.create(self.options.folder), ()
        journal = self.archive.reopen(resume)
        return journal, self.archive.load(resume)

    async def _warm(self) -> None:
        """The engine loads and openai is imported while the user still reads and types. Failures are seen as states of
        the server, and again at the first request."""
        with contextlib.suppress(AgentError):
            await asyncio.gather(self.server.ensure_ready(), self.model.ready())

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait([self._warming])
        await self.book.stop_all()
        await self.server.stop()


def _supervisor(
    profile: Profile,
    home: Home,
    paths: Paths,
    env: Mapping[str, str],
    offline: bool,
    publish: Callable[[ServerState], None],
) -> Supervisor:
    from agent.runtime.supervisor import Provision, Supervisor

    async def fetch(sources: Sequence[ModelSource], report: Callable[[str], None]) -> list[Path]:
        download = await asyncio.to_thread(_download)
        hub = download.Hub.usual()
        return await download.fetch(replace(hub, offline=hub.offline or offline), sources, report)

    async def find(report: Callable[[str], None]) -> Provision:
        from agent.runtime.provision import provide

        return await provide(profile, paths, env, report, offline, fetch)

    return Supervisor(profile, find, env, home, publish, profile.keep_alive)


def _download() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # the library reads it when it is imported
    return importlib.import_module("agent.runtime.download")


def run_command(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """`server`, `doctor` and `setup`. Raises AgentError."""
    from agent.console.commands import run

    paths = Paths.from_env(env)

    def profile() -> Profile:
        flags = arguments
        return _profile(Options(Path(), profile=flags.profile, speculation=not flags.no_dflash, ctx=flags.ctx), paths)

    def make(profile: Profile, home: Home, publish: Callable[[ServerState], None]) -> Supervisor:
        return _supervisor(profile, home, paths, env, arguments.offline, publish)

    def in_cache(source: ModelSource) -> Path | None:
        download = _download()
        return download.cached(download.Hub.usual(), source)

    return run(arguments, paths, env, profile, make, in_cache)


def _profile(options: Options, paths: Paths) -> Profile:
    from agent.config.profile import load_profile

    return _adjusted(load_profile(options.profile or "smoke", (paths.config / "profiles",)), options)


def _adjusted(profile: Profile, options: Options) -> Profile:
    """Raises ConfigError."""
    from agent.config.profile import with_changes

    if options.ctx:
        profile = with_changes(profile, {"ctx": options.ctx}, f"--ctx {options.ctx}")
    return profile if options.speculation else profile.model_copy(update={"draft": None, "mtp": None, "ngram": None})


def _log_to(file: Path) -> None:
    """Bugs and library warnings go to a file, never to the user's screen. Without a writable place they are dropped."""
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handler = logging.handlers.RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=1, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _to_stdout(text: str) -> None:
    """Raises AgentError when it cannot be written, BrokenPipeError when the reader has gone."""
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes once more at its end
        raise AgentError(f"Cannot write to standard output: {error.strerror}.") from error


def _when_unread(stop: Callable[[], None]) -> None:
    """Calls `stop` once nobody can read our standard output any more, if it is a pipe. The writing end of a pipe is
    never ready to be read; the kernel reports it so only when its reader has gone."""
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(1)
        stop()

    if stat.S_ISFIFO(os.fstat(1).st_mode):
        loop.add_reader(1, gone)


def list_sessions(env: Mapping[str, str]) -> int:
    """All sessions of this machine, newest first, a line each."""
    from agent.store.archive import FileArchive

    for info in FileArchive(Paths.from_env(env).sessions).list():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.when))
        title = "".join(c if c.isprintable() else " " for c in info.title)
        _to_stdout(f"{info.id}  {when}  {info.folder}  {title}\n")
    return 0


def run_headless(options: Options, env: Mapping[str, str], prompt: str, output: OutputFormat) -> int:
    from agent.headless import run

    parts = Parts(options, env, can_ask=False)
    unread: list[bool] = []

    async def work() -> int:
        session = parts.open_session()
        answer = asyncio.create_task(run(session, prompt, output, _to_stdout, tell))

        def stop() -> None:
            unread.append(True)
            answer.cancel()

        try:
            _when_unread(stop)
            return await answer
        except asyncio.CancelledError:
            if unread:
                raise BrokenPipeError from None
            raise
        finally:
            await parts.close()

    return asyncio.run(work())


def run_screen(options: Options, env: Mapping[str, str], first_prompt: str) -> int:
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # without it, a missing git makes the import itself fail
    from agent.store.prompts import PromptHistory
    from agent.tui.app import DflashApp
    from agent.workspace.repo import branch_label

    parts = Parts(options, env, can_ask=True)
    history = PromptHistory(parts.paths.state / "history.jsonl")
    app = DflashApp(
        parts.open_session,
        profile_label=parts.profile.title if parts.profile else "attached",
        folder=options.folder,
        read_branch=lambda: branch_label(options.folder),
        mode=options.mode,
        history=history.load(),
        remember=history.add,
        first_prompt=first_prompt,
        start_notes=(parts.profile.note,) if parts.profile and parts.profile.note else (),
        crash_log=parts.paths.logs / "dflash-agent.log",
    )

    async def work() -> int:
        try:
            code = await app.run_async()
        finally:
            await parts.close()
        return code if isinstance(code, int) else app.return_code or 0

    return asyncio.run(work())
