"""Which profile runs, and the supervisor that runs it."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.config.paths import Paths
from agent.config.profile import ModelSource, Profile, load_profile, with_changes
from agent.events import ServerState
from agent.progress import Report
from agent.runtime.provision import provide, smoke_model
from agent.runtime.record import Home
from agent.runtime.supervisor import Provision, Supervisor
from agent.wiring.options import Options


def chosen_profile(options: Options, paths: Paths) -> Profile:
    return _adjusted(load_profile(options.profile or "smoke", (paths.config / "profiles",)), options)


def _adjusted(profile: Profile, options: Options) -> Profile:
    """Raises ConfigError."""
    if options.ctx:
        profile = with_changes(profile, {"ctx": options.ctx}, f"--ctx {options.ctx}")
    return profile if options.speculation else profile.model_copy(update={"draft": None, "mtp": None, "ngram": None})


def supervisor(
    profile: Profile,
    home: Home,
    paths: Paths,
    env: Mapping[str, str],
    offline: bool,
    publish: Callable[[ServerState], None],
) -> Supervisor:
    async def fetch(sources: Sequence[ModelSource], report: Report) -> list[Path]:
        download = await asyncio.to_thread(load_download)
        hub = download.Hub.usual()
        return await download.fetch(replace(hub, offline=hub.offline or offline), sources, report)

    async def find(report: Report) -> Provision:
        return await provide(profile, paths, env, report, offline, fetch)

    return Supervisor(profile, find, env, home, publish, profile.keep_alive)


def locator(paths: Paths) -> Callable[[ModelSource], Path | None]:
    """Where a model file lies; None where it is not on this disk."""

    def locate(source: ModelSource) -> Path | None:
        if source.kind == "hub":
            download = load_download()
            return download.cached(download.Hub.usual(), source)
        path = source.path if source.kind == "file" else smoke_model(paths)
        return path if path is not None and path.is_file() else None

    return locate


def load_download() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # the library reads it when it is imported
    return importlib.import_module("agent.runtime.download")
