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
from agent.errors import RuntimeFailure
from agent.events import Endpoint, ServerState
from agent.runtime.command import build_command, engine_environment
from agent.runtime.logbook import Logbook
from agent.runtime.probe import NotAModelServer, health, inspect, open_client
from agent.runtime.process import Child

POLL = 0.1  # seconds between looks at /health; loading takes 0.1 s (tiny) to minutes (18 GB)
PORT_TRIES = 3  # another program may take the free port between our look and the engine's bind
CRASHES, CRASH_WINDOW = 3, 600.0  # more starts than this within so many seconds: it would crash for ever
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
        self._starts: deque[float] = deque()

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    async def ensure_ready(self) -> Endpoint:
        """All callers share one start; a caller that is cancelled leaves it running. Raises RuntimeFailure."""
        endpoint = self._state.endpoint
        if endpoint is not None and self._child is not None and self._child.alive:
            return endpoint
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._start(), name="engine-start")
        task = self._starting
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # stopped by `stop`, not by our own caller
                raise RuntimeFailure("The engine was stopped while it started.") from None
            raise

    async def stop(self) -> None:
        """A start in progress is torn down first."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._state.kind in ("ready", "starting"):
            self._become(ServerState("stopping"))
        await self._end_child()
        self._become(ServerState("stopped"))

    # ---- one start
    async def _start(self) -> Endpoint:
        try:
            await self._end_child()  # of a crash
            self._count_start()
            provision = await self._provide(lambda phase: self._become(ServerState("starting", phase=phase)))
            for attempt in range(PORT_TRIES):
                try:
                    endpoint = await self._launch(provision)
                    break
                except _PortTaken:
                    if attempt == PORT_TRIES - 1:
                        raise RuntimeFailure("No free port could be had on 127.0.0.1. Start again.") from None
            self._become(ServerState("ready", endpoint=endpoint))  # pyright: ignore[reportPossiblyUnboundVariable]
            return endpoint  # pyright: ignore[reportPossiblyUnboundVariable]
        except RuntimeFailure as failure:
            await self._end_child()
            self._become(ServerState("failed", why=str(failure), last_words=failure.last_words))
            raise
        except asyncio.CancelledError:
            await self._end_child()
            raise

    def _count_start(self) -> None:
        now = time.monotonic()
        while self._starts and now - self._starts[0] > CRASH_WINDOW:
            self._starts.popleft()
        if len(self._starts) > CRASHES:
            words = self._log.last(LAST_WORDS) if self._log else ()
            raise RuntimeFailure(
                f"The engine has ended {len(self._starts)} times in a few minutes; its log is {self._log_file}.", words
            )
        self._starts.append(now)

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
                while await health(client) != 200:
                    await asyncio.wait([ended], timeout=POLL)
                    if ended.done():
                        raise self._failure(ended.result())
                self._become(ServerState("starting", phase="checking"))
                known = Endpoint(url, key, self._profile.title, profile=self._profile.name)
                endpoint = await inspect(client, known)
            except (NotAModelServer, httpx2.HTTPError) as error:
                # somebody else's server on our port: it does not know our key
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
