"""All that one run of the product owns, built and ended in one place."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.commands.base import Level
from agent.config.paths import Paths
from agent.config.trust import Trust
from agent.core.permissions import Mode
from agent.errors import AgentError, ConfigError
from agent.events import DurableEvent, Event, Notice, Process, ProcessesChanged, ServerChanged
from agent.protocols import Checkpoints, Journal, Mentionable, ModelClient, Tool
from agent.speech import tell
from agent.wiring.logs import log_to
from agent.wiring.options import Options

if TYPE_CHECKING:
    from agent.core.session import Session
    from agent.tools.mcp.pool import Pool
    from agent.wiring.skills import Extensions

PATIENCE = 30.0  # seconds that the user has to answer a command that asks, before the model is told
ASSUMED_CONTEXT = 32_768  # tokens, where a server of the user's own has not been asked yet


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
        from agent.tools.mcp.results import Results
        from agent.wiring.choice import ServerChoice
        from agent.wiring.commands import build_commands
        from agent.wiring.late import LateModel
        from agent.wiring.mcp import results_folder
        from agent.wiring.offerings import Offerings
        from agent.wiring.rules import rulebook
        from agent.wiring.wall import home_warning, settings_for
        from agent.workspace.paths import Workspace

        self.env = env
        self.paths = Paths.from_env(env)
        self.trust = Trust(self.paths.trust, everything=options.trust)
        log_to(self.paths.logs / "dflash-agent.log")
        loaded = settings_for(options.folder, self.paths, self.trust)
        self.settings = loaded.settings
        self.options = options
        self.archive = FileArchive(self.paths.sessions)
        self.workspace = Workspace(options.folder, options.extra)
        self.book = ProcessBook()
        self.book.on_change = self._processes_changed
        self.can_ask = can_ask
        self.session: Session | None = None
        self.server = ServerChoice(options, self.paths, env, self._publish)
        self.rules, notes = rulebook(self.paths, options.folder)
        self.registry = build_commands(self)
        self.extensions: Extensions | None = None
        self.start_notes: list[str] = [*home_warning(options.folder, env), *loaded.warnings, *notes]
        self.model = LateModel(self._client, self.server.suspect, self.server.totals)
        self._warming: asyncio.Task[Any] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._instructions = ""
        self.mcp = self._pool()
        ask = self.opened if can_ask else None
        self.offerings = Offerings(self.mcp, Results(results_folder(self.paths)), self.registry, ask)

    @property
    def context(self) -> int:
        """Tokens, as far as they are known before the engine has been asked."""
        return self.options.ctx or (self.server.profile.ctx if self.server.profile else ASSUMED_CONTEXT)

    # ---- building
    def _client(self) -> ModelClient:
        from agent.model.client import OpenAIModel

        for name in [n for n in os.environ if n.startswith("OPENAI_")]:
            del os.environ[name]  # the library reads keys, addresses and headers of a cloud from there
        return OpenAIModel(self.server.ensure_ready, self._sampling)

    def _pool(self) -> Pool:
        from agent.wiring.mcp import build_pool, configured

        return build_pool(
            configured(self.options, self.paths),
            self.options,
            self.paths,
            self.env,
            self.trust,
            context=self.context,
            notice=self.notice,
            model=self.model,
            session=self.opened if self.can_ask else None,
        )

    def notice(self, level: Level, text: str) -> None:
        """In a moment: whoever watches the session begins to only after it has been opened."""
        if self.session is not None and text:
            asyncio.get_running_loop().call_soon(self.session.publish, Notice(level, text))

    def _publish(self, event: Event) -> None:
        if self.session is None:
            return
        if isinstance(event, ServerChanged):
            self.session.server_changed(event.state)
        else:
            self.session.publish(event)

    def _processes_changed(self, processes: tuple[Process, ...]) -> None:
        self._publish(ProcessesChanged(processes))

    def open_session(self) -> Session:
        """Raises ConfigError when the session to resume is not there."""
        from agent.core.session import Session
        from agent.model.calls import LenientCalls
        from agent.model.tokens import Tokens
        from agent.prompt.instructions import Instructions, byte_limit
        from agent.tools.registry import build_tools, tool_schemas
        from agent.tools.skill import SkillTool
        from agent.wiring.wall import sandbox_for

        if self.session is None and self.server.profile and self.server.profile.note:
            self.start_notes.append(self.server.profile.note)
        instructions = Instructions(self.options.folder, self.paths.config, byte_limit(self.context))
        if instructions.cut:
            self.start_notes.append(f"Too long for the context and cut: {', '.join(map(str, instructions.cut))}.")
        self._instructions = instructions.text
        extensions = self._extensions()
        listed, reach = self.mcp.open_conversation()
        own = build_tools(
            replace(self.workspace, lent=extensions.lent),
            self.env,
            self.paths.logs,
            self.book,
            SkillTool(extensions.book, self._holds),
            beside=lambda file: instructions.below(file, self._holds),
            hides=self.rules.hides,
            patience=PATIENCE if self.can_ask else 0,
            sandbox=sandbox_for(self.settings, self.workspace, self.env),
        )
        tools: tuple[Tool, ...] = (*own, *reach)
        journal, past = self._journal()
        self.session = Session(
            model=self.model,
            tools=tools,
            tools_json=tool_schemas(tools, listed),
            system=self._system(extensions),
            journal=journal,
            clock=SystemClock(),
            reader=LenientCalls(),
            late=self.mcp,
            rules=self.rules,
            checkpoints=self._checkpoints(journal.session_id),
            past=past,
            mode=self.mode,
            can_ask=self.can_ask,
            max_steps=self.options.max_turns,
            max_tokens=self._reply_limit(),
            prefix=self.archive.prefix(journal.session_id) if past else None,
            processes=self.book,
            mentionable=self._mentionable(own),
            counter=Tokens(self.server.ensure_ready, self.model.count, _encoding),
            thinking=self.server.profile.thinking if self.server.profile else None,
            shell=self._shell() if self.can_ask else None,
        )
        self.session.server_changed(self.server.state)
        self._processes_changed(self.book.list())
        self._warming = asyncio.get_running_loop().create_task(self._warm())
        self.mcp.start()
        self._ask_trust(self.session, extensions)
        return self.session

    def _mentionable(self, own: Sequence[Tool]) -> tuple[Mentionable, ...]:
        from agent.tools.mention import Files

        tools = {tool.name: tool for tool in own}
        return Files(self.workspace, tools["read"], tools["list"], self.rules.hides), self.offerings.resources

    def _shell(self) -> Tool:
        """For what the user types: its folder and variables are not the model's, and no sandbox is around it."""
        from agent.tools.bash import Bash

        return Bash(self.workspace, self.env, self.paths.logs, self.book, PATIENCE)

    def _system(self, extensions: Extensions) -> str:
        from agent.prompt.system import build_system_prompt

        return build_system_prompt(self.options.folder, extensions.book.introduction(), self._instructions)

    def _ask_trust(self, session: Session, extensions: Extensions) -> None:
        from agent.wiring.brought import Brought, brought, left_out, watch
        from agent.wiring.mcp import configured

        async def look() -> list[Brought]:
            await self.mcp.look_anew(configured(self.options, self.paths))
            return brought(self.options.folder, self._extensions(), self.mcp, self.trust)

        self.notice("warning", "\n".join(self.mcp.configured.faults))
        things = brought(self.options.folder, extensions, self.mcp, self.trust)
        if self._asking is not None:
            self._asking.cancel()
        if self.can_ask:
            asking = watch(session, things, look, self.trust, self._let_in, self.notice)
            self._asking = asyncio.get_running_loop().create_task(asking)
        elif things:
            self.start_notes.append(left_out(things))

    def _let_in(self) -> None:
        """What has come to be trusted counts; settings do from the next conversation on."""
        from agent.wiring.wall import settings_for

        loaded = settings_for(self.options.folder, self.paths, self.trust)
        self.settings = loaded.settings
        self.notice("warning", "\n".join(loaded.warnings))
        self.mcp.start()
        self._extensions()

    def _skills_changed(self) -> None:
        if self.session is not None and self.extensions is not None:
            self.session.tell_system(self._system(self.extensions))

    def _checkpoints(self, session_id: str) -> Checkpoints:
        from agent.workspace.checkpoints import Checkpoints, place_of

        root, paths = self.options.folder, self.paths
        keep_out = (paths.config, paths.state, paths.data, paths.cache)
        home = Path(os.path.expanduser("~"))
        trees = "this is the home folder, or above it" if home.is_relative_to(root) else ""
        return Checkpoints(place_of(paths.data, root), root, session_id, keep_out, trees)

    def _sampling(self) -> Mapping[str, Any]:
        """As the profile says; what the server was started with, where there is none."""
        return self.server.profile.sampling.model_dump(exclude_none=True) if self.server.profile else {}

    def _reply_limit(self) -> int | None:
        return self.server.profile.reply_limit if self.server.profile else None

    def change(self, profile: str) -> None:
        """Another profile's engine for the running session. Raises AgentError."""

        async def idle() -> None:
            while self.opened().running:
                await self.opened().idle()

        def changed() -> None:
            self.opened().max_tokens = self._reply_limit()

        self.server.change(profile, idle, changed)

    def opened(self) -> Session:
        """Raises AgentError before the session is there, or where it could not be opened."""
        if self.session is None:
            raise AgentError("There is no conversation yet.")
        return self.session

    def _extensions(self) -> Extensions:
        """Built once; whoever asks again looks anew at what there is."""
        from agent.wiring.mcp import results_folder
        from agent.wiring.skills import Extensions

        if self.extensions is None:
            self.extensions = Extensions(
                self.options.folder,
                self.paths,
                self.env,
                self.trust,
                context=self.context,
                mode=lambda: self.opened().mode,
                holds=self._holds,
                registry=self.registry,
                changed=self._skills_changed,
            )
            self.extensions.lent.append(results_folder(self.paths))
            self.start_notes += self.extensions.start_notes()
        else:
            self.extensions.look_anew()
        return self.extensions

    def _holds(self, text: str) -> bool:
        return self.session is not None and self.session.holds(text)

    @property
    def mode(self) -> Mode:
        """That of the session; before there is one, that in which it will start."""
        return self.session.mode if self.session else self.options.mode or self.settings.permission_mode

    def reopen(self, session_id: str | None) -> Session:
        """Another session in the place of the one before, which must be closed; None: a new one."""
        self.options = replace(self.options, resume=session_id, resume_last=False, fork=False, mode=self.mode)
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
            if self.session and self._alone():
                self.session.read_ahead()

    def _alone(self) -> bool:
        """Whether the engine has nothing else to do and nothing of others to lose: it has one slot for all windows."""
        return self.can_ask and self.server.alone

    async def close(self) -> None:
        from agent.tools.jobs import named

        if self.session is not None:
            await self.session.close()
        for task in (self._warming, self._asking):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        for process in self.book.list():
            tell(f"Stopped with this session: {process.command} (pid {', '.join(map(str, process.pids))}).")
        await self.offerings.close()
        remaining, _ = await asyncio.gather(self.book.stop_all(), self.mcp.close())
        if remaining:
            tell(f"Could not be stopped: {named(remaining)}.")
        await self.server.stop()


def _encoding() -> Callable[[str], int]:
    from agent.model.encoding import o200k

    return o200k()
