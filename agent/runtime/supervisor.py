"""Owns one engine: starts it when somebody needs it, watches it, heals it, ends it.

One runner at a time changes the state; callers share it. Nobody looks at the state first: they await `ensure_ready`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2

from agent.config.profile import Profile
from agent.errors import AgentError, RuntimeFailure
from agent.events import Endpoint, ServerState
from agent.runtime.command import build_command, engine_environment
from agent.runtime.logbook import Logbook
from agent.runtime.probe import NotAModelServer, health, inspect, is_ours, open_client
from agent.runtime.process import Child

POLL = 0.1  # seconds between looks at /health; loading takes 0.1 s (tiny) to minutes (18 GB)
PORT_TRIES = 3  # another program may take the free port between our look and the engine's bind
CRASHES, CRASH_WINDOW = 3, 600.0  # more crashes than this within so many seconds: it would crash for ever
LAST_WORDS = 12  # lines


@dataclass(frozen=True, slots=True)
class Provision:
    """The files of one start."""

    binary: Path
    model: Path
    draft: Path | None = None


class Supervisor:
    """`provide` finds (or builds, or fetches) what the profile needs and reports its phases. `log_file` gets all that
    the engine says; its folder is the engine's home."""

    def __init__(
        self,
        profile: Profile,
        provide: Callable[[Callable[[str], None]], Awaitable[Provision]],
        env: Mapping[str, str],
        log_file: Path,
        publish: Callable[[ServerState], None],
    ) -> None:
        self._profile = profile
        self._provide = provide
        self._env = env
        self._log_file = log_file
        self._publish = publish
        self._state = ServerState("stopped")
        self._child: Child | None = None
        self._log: Logbook | None = None
        self._starting: asyncio.Task[Endpoint] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._crashes: deque[float] = deque()

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    async def ensure_ready(self) -> Endpoint:
        """All callers share one start; a caller that is cancelled leaves it running. Raises RuntimeFailure."""
        while self._stopping is not None and not self._stopping.done():
            await asyncio.wait([self._stopping])
        endpoint = self._state.endpoint
        if endpoint is not None and self._child is not None and self._child.alive:
            return endpoint
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._start(), name="engine-start")
            # a failure is published; nobody may be left to await it
            self._starting.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        task = self._starting
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # stopped by `stop`, not by our own caller
                raise RuntimeFailure("The engine was stopped while it started.") from None
            raise

    async def stop(self) -> None:
        """A start in progress is torn down first. All callers share one stop; it forgets past crashes."""
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.get_running_loop().create_task(self._stop(), name="engine-stop")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._state.kind in ("ready", "starting"):
            self._become(ServerState("stopping"))
        await self._end_child()
        self._crashes.clear()
        self._become(ServerState("stopped"))

    # ---- one start
    async def _start(self) -> Endpoint:
        try:
            if self._child is not None:  # `stop` and failed starts leave none: it ended by itself
                self._crashes.append(time.monotonic())
                await self._end_child()
            self._give_up_on_crashes()
            provision = await self._provide(lambda phase: self._become(ServerState("starting", phase=phase)))
            endpoint = await self._launch_somewhere(provision)
        except (AgentError, OSError) as error:
            await self._end_child()
            words = error.last_words if isinstance(error, RuntimeFailure) else ()
            self._become(ServerState("failed", why=str(error), last_words=words))
            if isinstance(error, AgentError):
                raise
            raise RuntimeFailure(f"Cannot start the engine: {error}.") from error
        except asyncio.CancelledError:
            await self._end_child()
            raise
        self._become(ServerState("ready", endpoint=endpoint))
        assert self._child is not None
        self._watching = asyncio.get_running_loop().create_task(self._watch(self._child), name="engine-watch")
        return endpoint

    def _give_up_on_crashes(self) -> None:
        while self._crashes and time.monotonic() - self._crashes[0] > CRASH_WINDOW:
            self._crashes.popleft()
        if len(self._crashes) > CRASHES:
            raise RuntimeFailure(
                f"The engine has ended {len(self._crashes)} times in a few minutes; its log is {self._log_file}. "
                "Leave and start again when the cause is gone.",
                self._log.last(LAST_WORDS) if self._log else (),
            )

    async def _watch(self, child: Child) -> None:
        """Says at once that a serving engine has died; the next request heals it."""
        status = await child.wait()
        if child is self._child and self._state.kind == "ready" and self._log is not None:
            why = self._log.explain(status, "by itself")
            self._become(ServerState("failed", why=why, last_words=self._log.last(LAST_WORDS)))

    async def _launch_somewhere(self, provision: Provision) -> Endpoint:
        for _ in range(PORT_TRIES):
            with contextlib.suppress(_PortTaken):
                return await self._launch(provision)
            await self._end_child()
        raise RuntimeFailure("No free port could be had on 127.0.0.1. Start again.")

    async def _launch(self, provision: Provision) -> Endpoint:
        port, key = _free_port(), secrets.token_urlsafe(24)
        argv = build_command(self._profile, provision.binary, provision.model, provision.draft, port)
        environment = engine_environment(self._env, key, self._log_file.parent)
        self._become(ServerState("starting", phase=f"loading {provision.model.name}"))
        log = self._log = Logbook(self._log_file)
        child = self._child = await Child.start(argv, env=environment, on_line=log.add)
        url = f"http://127.0.0.1:{port}"
        async with open_client(url, key, local=True) as client:
            ended = asyncio.get_running_loop().create_task(child.wait())
            try:
                while not await _serves(client):
                    await asyncio.wait([ended], timeout=POLL)
                    if ended.done():
                        raise self._failure(ended.result())
                self._become(ServerState("starting", phase="checking"))
                if not await is_ours(client, str(provision.model)):
                    raise _PortTaken
                known = Endpoint(url, key, self._profile.title, profile=self._profile.name)
                endpoint = await inspect(client, known)
            except (NotAModelServer, httpx2.HTTPError) as error:
                raise RuntimeFailure(
                    f"The engine does not answer as it should: {error}.", log.last(LAST_WORDS)
                ) from error
            finally:
                ended.cancel()
        if child.returncode is not None:
            raise self._failure(child.returncode)
        return endpoint

    def _failure(self, status: int) -> Exception:
        assert self._log is not None
        words = self._log.last(LAST_WORDS)
        if any("couldn't bind HTTP server socket" in line for line in words):
            return _PortTaken()
        return RuntimeFailure(self._log.explain(status), words)

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if self._watching is not None:
            self._watching.cancel()
        if child is not None:
            await child.stop()
        if self._log is not None:
            self._log.close()

    def _become(self, state: ServerState) -> None:
        if state != self._state:
            self._state = state
            with contextlib.suppress(RuntimeError):
                self._publish(state)


class _PortTaken(Exception):
    pass


async def _serves(client: httpx2.AsyncClient) -> bool:
    try:
        return await health(client) == 200
    except httpx2.TransportError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
