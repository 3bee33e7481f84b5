"""The engine room as the commands of a running session see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from agent.config.paths import Paths
from agent.config.profile import Profile
from agent.config.settings import load_settings
from agent.console.doctor import Check, text_of
from agent.console.doctor import examine as examine_machine
from agent.console.server import describe
from agent.errors import ConfigError
from agent.protocols import Server
from agent.runtime.logbook import last_lines
from agent.runtime.record import Home
from agent.speech import harmless
from agent.wiring.engine import locator
from agent.wiring.wall import made
from agent.workspace.paths import Workspace

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


async def examine(profile: Profile, paths: Paths, env: Mapping[str, str], folder: Path) -> str:
    report = await examine_machine(profile, paths, env, locator(paths), partial(other_checks, paths, env, folder))
    return "\n".join(text_of(report))


def other_checks(paths: Paths, env: Mapping[str, str], folder: Path) -> list[Check]:
    """What doctor does not know itself."""
    try:
        settings = load_settings(paths.settings).settings
    except ConfigError as error:
        return [Check("settings", "warning", str(error), "Correct the file.")]
    found = made(settings, Workspace(folder), env)
    wanted = settings.sandbox == "workspace"
    if isinstance(found, str):
        words = f"{'on, but' if wanted else 'off;'} {found}"
        return [Check("sandbox", "warning" if wanted else "ok", words, "Commands are refused." if wanted else "")]
    how = f'sandbox = "workspace" in {paths.settings} turns it on'
    return [Check("sandbox", "ok", "on, and bubblewrap works here" if wanted else f"off; bubblewrap works here, {how}")]
