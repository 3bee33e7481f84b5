"""Which profile runs, and the supervisor that runs it."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agent.config.paths import Paths
from agent.config.preferences import Preferences
from agent.config.profile import ModelSource, Profile, known_profiles, load_profile, with_changes
from agent.config.settings import load_settings
from agent.events import ServerState
from agent.progress import Report
from agent.runtime.hardware import read_machine
from agent.runtime.provision import engine_here, provide, smoke_model
from agent.runtime.record import Home
from agent.runtime.supervisor import Provision, Supervisor
from agent.runtime.survey import Disk, suited
from agent.survey import Choice
from agent.wiring.options import Options

Find: TypeAlias = Callable[[Report], Awaitable[Provision]]


def chosen(options: Options, paths: Paths, env: Mapping[str, str], *, own: bool = False) -> tuple[Choice, str]:
    """What is to run, and why; "" for the profile that suits the machine. Flags, environment, the user's configuration,
    what the user chose last, the machine: the first that says something. `own`: a server elsewhere that was chosen last
    does not count. Raises ConfigError."""
    if options.server:
        return Choice(server=options.server), "Asked for by --server."
    kept = Preferences(paths.preferences)
    known = known_profiles((paths.config / "profiles",))
    for name, why in (
        (options.profile or "", "Asked for by --profile."),
        (env.get("DFLASH_PROFILE", ""), "Asked for by DFLASH_PROFILE."),
        (load_settings(paths.settings).settings.profile, f"Asked for by {paths.settings}."),
        (kept.profile if kept.profile in known else "", "Chosen last time."),
    ):
        if name:
            return Choice(profile=name), why
    if kept.server and not own:
        return Choice(server=kept.server), "Chosen last time."
    return Choice(profile=suited(read_machine(env))[0]), ""


def chosen_profile(options: Options, paths: Paths, env: Mapping[str, str]) -> Profile:
    """Raises ConfigError."""
    return load(chosen(replace(options, server=None), paths, env, own=True)[0].profile, options, paths)


def load(name: str, options: Options, paths: Paths) -> Profile:
    """With the changes that the flags ask for. Raises ConfigError."""
    profile = load_profile(name, (paths.config / "profiles",))
    if options.ctx:
        profile = with_changes(profile, {"ctx": options.ctx}, f"--ctx {options.ctx}")
    return profile if options.speculation else profile.model_copy(update={"draft": None, "mtp": None, "ngram": None})


def finder(profile: Profile, paths: Paths, env: Mapping[str, str], offline: bool) -> Find:
    """What builds and fetches all that the profile needs."""

    async def fetch(sources: Sequence[ModelSource], report: Report) -> list[Path]:
        download = await asyncio.to_thread(_late, "download")
        hub = _late("hub").Hub.usual()
        return await download.fetch(replace(hub, offline=hub.offline or offline), sources, report)

    async def find(report: Report) -> Provision:
        return await provide(profile, paths, env, report, offline, fetch)

    return find


def supervisor(
    profile: Profile,
    home: Home,
    paths: Paths,
    env: Mapping[str, str],
    offline: bool,
    publish: Callable[[ServerState], None],
) -> Supervisor:
    return Supervisor(profile, finder(profile, paths, env, offline), env, home, publish, profile.keep_alive)


def disk(paths: Paths) -> Disk:
    """Imports the hub library: 50 ms."""
    hub = _late("hub")
    usual = hub.Hub.usual()
    return Disk(locator(paths), lambda source: hub.come(usual, source) if source.kind == "hub" else 0, usual.cache)


def in_place(profile: Profile, paths: Paths) -> bool:
    """Whether a start has nothing to build or fetch. Asks nobody. Raises RuntimeFailure."""
    if engine_here(paths.engines, profile.gpu) is None:
        return False
    locate = locator(paths)
    return all(locate(source) for source in (profile.model, profile.draft, profile.mtp) if source is not None)


def locator(paths: Paths) -> Callable[[ModelSource], Path | None]:
    """Where a model file lies; None where it is not on this disk."""

    def locate(source: ModelSource) -> Path | None:
        if source.kind == "hub":
            hub = _late("hub")
            return hub.cached(hub.Hub.usual(), source)
        path = source.path if source.kind == "file" else smoke_model(paths)
        return path if path is not None and path.is_file() else None

    return locate


def _late(module: Literal["hub", "download"]) -> Any:
    """What imports the hub library, which most starts do not need."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # the library reads it when it is imported
    return importlib.import_module(f"agent.runtime.{module}")
