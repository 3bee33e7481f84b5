"""The engine room as the commands of a running session see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agent.config.paths import Paths
from agent.config.profile import Profile
from agent.console.doctor import examine as examine_machine
from agent.console.doctor import text_of
from agent.console.server import describe
from agent.protocols import Server
from agent.runtime.logbook import last_lines
from agent.runtime.record import Home
from agent.speech import harmless
from agent.wiring.engine import locator

LINES = 40  # of the log: about a screen


class OwnRoom:
    def __init__(self, home: Home) -> None:
        self._home = home

    async def describe(self) -> str:
        return await describe(self._home)

    def log(self) -> Sequence[str]:
        return [harmless(line) for line in last_lines(self._home.log, LINES)]


class AttachedRoom:
    def __init__(self, server: Callable[[], Server]) -> None:
        self._server = server

    async def describe(self) -> str:
        endpoint = await self._server().ensure_ready()
        context = f"{endpoint.n_ctx} tokens" if endpoint.n_ctx else "n/a"
        rows = (("server", endpoint.base_url), ("model", endpoint.model), ("engine", endpoint.engine or "n/a"))
        return "\n".join(f"{name:9} {value}" for name, value in (*rows, ("context", context)))

    def log(self) -> Sequence[str]:
        return ()


async def examine(profile: Profile, paths: Paths, env: Mapping[str, str]) -> str:
    return "\n".join(text_of(await examine_machine(profile, paths, env, locator(paths))))
