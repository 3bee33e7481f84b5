"""The server of this run, and the way to another one. Whoever holds it never learns which server it is: a session
goes on over a change of models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from agent.config.paths import Paths
from agent.config.preferences import Preferences
from agent.config.profile import NAMES, Profile
from agent.errors import AgentError
from agent.events import Endpoint, Event, Notice, ServerChanged, ServerState
from agent.protocols import Server
from agent.runtime.attached import Attached
from agent.runtime.lock import holders
from agent.runtime.metrics import Totals
from agent.runtime.record import Home
from agent.runtime.supervisor import Supervisor
from agent.runtime.survey import look
from agent.survey import Choice, Ready, Survey
from agent.wiring.engine import chosen, disk, finder, in_place, load, supervisor
from agent.wiring.options import Options
from agent.wiring.room import AttachedRoom, OwnRoom


class ServerChoice:
    """`publish` hears of each change of the server, and how a change of profiles went. `own`: of our own engines alone.
    Raises ConfigError."""

    def __init__(
        self,
        options: Options,
        paths: Paths,
        env: Mapping[str, str],
        publish: Callable[[Event], None],
        *,
        own: bool = False,
    ) -> None:
        self._options, self._paths, self._env = options, paths, env
        self._publish = publish
        self._watch: Callable[[ServerState], None] | None = None
        self._preferences = Preferences(paths.preferences)
        self._leaving: asyncio.Task[None] | None = None  # the stop of the server before this one
        self._moving: asyncio.Task[None] | None = None
        choice, self._why = chosen(options, paths, env, own=own)
        self.profile: Profile | None = None
        self._server = self._put(choice)

    # ---- the server that is chosen
    @property
    def state(self) -> ServerState:
        return self._server.state

    def suspect(self, why: str) -> None:
        self._server.suspect(why)

    async def ensure_ready(self) -> Endpoint:
        if self._leaving is not None:  # two models do not fit on one card
            await asyncio.shield(self._leaving)
        return await self._server.ensure_ready()

    async def stop(self) -> None:
        await self._stay()
        if self._leaving is not None:
            await asyncio.shield(self._leaving)
        await self._server.stop()

    async def totals(self) -> Totals | None:
        """See Attached.totals; our own engines tell all in their replies."""
        return await self._server.totals() if isinstance(self._server, Attached) else None

    @property
    def label(self) -> str:
        return self.profile.title if self.profile else f"attached to {self.choice.server}"

    @property
    def alone(self) -> bool:
        """Whether the engine is ours, and no other window uses it."""
        return self.profile is not None and holders(Home.of(self._paths.state, self.profile).lease) == 1

    async def describe(self) -> str:
        return await self._room.describe()

    def log(self) -> Sequence[str]:
        return self._room.log()

    # ---- what there is to choose
    def in_place(self) -> bool:
        """Whether a start has nothing to build or fetch. Raises RuntimeFailure."""
        return self.profile is None or in_place(self.profile, self._paths)

    async def survey(self) -> Survey:
        asked = (self.choice.profile, self._why) if self._why and self.choice.profile else None

        def work() -> Survey:
            return look(self._paths, self._env, disk(self._paths), asked, self._preferences.load_seconds)

        return await asyncio.to_thread(work)

    async def get_ready(self, choice: Choice, watch: Callable[[ServerState], None]) -> Ready:
        if choice != self.choice:
            await self._server.stop()
            self._server = self._put(choice)
        self._watch = watch
        try:
            endpoint = await self.ensure_ready()
        except asyncio.CancelledError:
            await self._server.stop()
            raise
        finally:
            self._watch = None
        self._preferences.choose(profile=choice.profile, server=choice.server)
        return self._ready(endpoint)

    # ---- changing it under a running session
    def change(self, name: str, idle: Callable[[], Awaitable[None]], then: Callable[[], None]) -> None:
        """Begins to put the engine of profile `name` in the place of the present one; a change that is still going on
        is given up. What is missing is built and fetched first, while the present engine serves on; `idle` returns when
        no turn runs. `then` is called once the new one is in place. Failures are published. Raises ConfigError."""
        profile = load(name, self._options, self._paths)
        before = self._moving
        self._moving = asyncio.get_running_loop().create_task(self._change(profile, before, idle, then), name="change")

    async def _change(
        self,
        profile: Profile,
        before: asyncio.Task[None] | None,
        idle: Callable[[], Awaitable[None]],
        then: Callable[[], None],
    ) -> None:
        if before is not None and not before.done():
            before.cancel()
            await asyncio.wait([before])
        try:
            find = finder(profile, self._paths, self._env, self._options.offline)
            await find(lambda phase: self._publish(ServerChanged(ServerState("starting", phase))))
        except AgentError as failure:
            self._publish(Notice("error", f"Still running {self.label}. {failure}"))
            return
        finally:
            self._publish(ServerChanged(self.state))
        await idle()
        old = self._server
        self._server = self._put(Choice(profile=profile.name))
        self._leaving = asyncio.get_running_loop().create_task(old.stop(), name="leave")
        then()
        try:
            endpoint = await self.ensure_ready()
        except AgentError as failure:
            self._publish(Notice("error", f"{profile.title} could not be started: {failure}"))
            return
        self._preferences.choose(profile=profile.name)
        self._publish(Notice("info", str(self._ready(endpoint))))

    async def _stay(self) -> None:
        if self._moving is not None and not self._moving.done():
            self._moving.cancel()
            await asyncio.wait([self._moving])

    # ---- building
    def _put(self, choice: Choice) -> Server:
        """Raises ConfigError."""
        if choice.server:
            server: Server = Attached(choice.server, self._env, self._changed, self._options.ctx)
            self.profile, self._room = None, AttachedRoom(lambda: server)
        else:
            self.profile = load(choice.profile, self._options, self._paths)
            home = Home.of(self._paths.state, self.profile)
            server = supervisor(self.profile, home, self._paths, self._env, self._options.offline, self._changed)
            self._room = OwnRoom(home)
        self.choice = choice
        return server

    def _changed(self, state: ServerState) -> None:
        if state.kind == "ready" and self.profile and (seconds := self._load_seconds()):
            self._preferences.loaded(self.profile.name, seconds)
        if self._watch is not None:
            self._watch(state)
        self._publish(ServerChanged(state))

    def _load_seconds(self) -> float | None:
        record = self._server.record if isinstance(self._server, Supervisor) else None
        return record.load_s if record else None

    def _ready(self, endpoint: Endpoint) -> Ready:
        record = self._server.record if isinstance(self._server, Supervisor) else None
        ready = Ready(endpoint.model, NAMES.get(endpoint.rung, ""), endpoint.n_ctx, note=self.state.note)
        if record is None:
            return ready
        return replace(ready, tok_s=record.tok_s, acceptance=record.acceptance, load_s=record.load_s)
