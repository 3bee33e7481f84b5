"""All that one run of the product owns, built and ended in one place."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.handlers
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.commands.base import Registry
from agent.config.paths import Paths
from agent.config.trust import Trust
from agent.errors import AgentError, ConfigError
from agent.events import DurableEvent, ServerState
from agent.protocols import Journal, ModelClient, Server, Tool
from agent.runtime.record import Home
from agent.speech import tell
from agent.wiring.options import Options

if TYPE_CHECKING:
    from agent.config.profile import Profile
    from agent.core.session import Session
    from agent.runtime.metrics import Totals

LOG_BYTES = 2_000_000
PATIENCE = 30.0  # seconds that the user has to answer a command that asks, before the model is told


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class Parts:
    """All that one run of the product owns. `open_session` needs the running loop; `close` ends what was started."""

    def __init__(self, options: Options, env: Mapping[str, str], *, can_ask: bool) -> None:
        from agent.store.archive import FileArchive
        from agent.tools.jobs import ProcessBook
        from agent.wiring.late import LateModel
        from agent.wiring.wall import home_warning, settings_for
        from agent.workspace.paths import Workspace

        self.options = options
        self.env = env
        self.paths = Paths.from_env(env)
        self.trust = Trust(self.paths.state / "trust.json", everything=options.trust)
        _log_to(self.paths.logs / "dflash-agent.log")
        self.settings, warnings = settings_for(options.folder, self.paths, self.trust)
        self.warnings = (*home_warning(options.folder, env), *warnings)
        self.archive = FileArchive(self.paths.sessions)
        self.profile: Profile | None = None
        if not options.server:
            from agent.wiring.engine import chosen_profile

            self.profile = chosen_profile(options, self.paths)
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
        from agent.wiring.engine import supervisor

        assert self.profile is not None
        home = Home.of(self.paths.state, self.profile)
        return supervisor(self.profile, home, self.paths, self.env, self.options.offline, self._publish)

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
        from agent.wiring.wall import sandbox_for

        tools: tuple[Tool, ...] = build_tools(
            self.workspace,
            self.env,
            self.paths.logs,
            self.book,
            patience=PATIENCE if self.can_ask else 0,
            sandbox=sandbox_for(self.settings, self.workspace, self.env),
        )
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
            prefix=self.archive.prefix(journal.session_id) if past else None,
            processes=self.book,
        )
        self.session.server_changed(self.server.state)
        self._warming = asyncio.get_running_loop().create_task(self._warm())
        return self.session

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know at the start."""
        return (*((self.profile.note,) if self.profile and self.profile.note else ()), *self.warnings)

    def opened(self) -> Session:
        """Raises AgentError before the session is there, or where it could not be opened."""
        if self.session is None:
            raise AgentError("There is no conversation yet.")
        return self.session

    def commands(self) -> Registry:
        from agent import __version__
        from agent.commands.conversation import mode_command
        from agent.commands.processes import processes_command
        from agent.commands.server import doctor_command, server_command, status_command
        from agent.commands.sessions import session_commands
        from agent.wiring.room import AttachedRoom, OwnRoom, examine

        folder, profile = str(self.options.folder), self.profile
        own = OwnRoom(Home.of(self.paths.state, profile)) if profile else None
        label = profile.title if profile else f"attached to {self.options.server}"
        registry = Registry(
            [
                *session_commands(self.opened, self.archive, self.options.folder),
                mode_command(self.opened),
                processes_command(self.book),
                server_command(lambda: self.server, own or AttachedRoom(lambda: self.server), profile is None),
                status_command(self.opened, folder, label, __version__),
            ]
        )
        if profile:
            registry.add(doctor_command(lambda: examine(profile, self.paths, self.env, self.options.folder)))
        return registry

    def reopen(self, session_id: str | None) -> Session:
        """Another session in the place of the one before, which must be closed; None: a new one."""
        mode = self.session.mode if self.session else self.options.mode
        self.options = replace(self.options, resume=session_id, resume_last=False, fork=False, mode=mode)
        return self.open_session()

    def _journal(self) -> tuple[Journal, tuple[DurableEvent, ...]]:
        resume = self.options.resume
        if self.options.resume_last:
            here = self.archive.list(self.options.folder)
            if not here:
                raise ConfigError("No session to continue in this folder; start one without -c.")
            resume = here[0].id
        if resume is None:
            return self.archive.create(self.options.folder), ()
        if self.options.fork:
            resume = self.archive.fork(resume)
        journal = self.archive.reopen(resume)
        return journal, self.archive.load(resume)

    async def _warm(self) -> None:
        """The engine loads and openai is imported while the user still reads and types. Failures are seen as states of
        the server, and again at the first request."""
        with contextlib.suppress(AgentError):
            await asyncio.gather(self.server.ensure_ready(), self.model.ready())

    async def close(self) -> None:
        from agent.tools.jobs import named

        if self.session is not None:
            await self.session.close()
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait([self._warming])
        for process in self.book.list():
            tell(f"Stopped with this session: {process.command} (pid {', '.join(map(str, process.pids))}).")
        if remaining := await self.book.stop_all():
            tell(f"Could not be stopped: {named(remaining)}.")
        await self.server.stop()


def _log_to(file: Path) -> None:
    """Bugs and library warnings go to a file, never to the user's screen. Without a writable place they are dropped."""
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handler = logging.handlers.RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=1, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
