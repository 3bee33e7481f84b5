"""The settings that hold in a folder, and the sandbox that they ask for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent.config.paths import Paths
from agent.config.settings import Loaded, Settings, load_settings, with_environment
from agent.config.trust import Thing, Trust, digest_of_files
from agent.console.config import explained, shown
from agent.tools.sandbox import INSTALL, Sandbox, find_bubblewrap
from agent.tools.shell import prelude
from agent.workspace.paths import Workspace

OF_PROJECT = Path(".dflash") / "config.toml"


def settings_for(folder: Path, paths: Paths, trust: Trust) -> Loaded:
    """What holds in this folder. Raises ConfigError."""
    thing = settings_thing(folder)
    return load_settings(paths.settings, thing.place if thing and trust.allows(thing) else None)


def settings_told(folder: Path, paths: Paths, trust: Trust, env: Mapping[str, str]) -> Loaded:
    """For whoever asks what holds: with the environment, and with a word on what does not count. Raises ConfigError."""
    loaded, thing = settings_for(folder, paths, trust), settings_thing(folder)
    if thing is not None and not trust.allows(thing):
        left_out = f"{thing.place} is left out: this folder is not trusted (--trust trusts it for one run)."
        loaded = replace(loaded, warnings=(*loaded.warnings, left_out))
    return with_environment(loaded, env)


def explain(folder: Path, paths: Paths, trust: Trust, env: Mapping[str, str], key: str) -> Sequence[str]:
    """Raises ConfigError."""
    loaded = settings_told(folder, paths, trust, env)
    return explained(loaded, key) if key else shown(loaded)


def settings_thing(folder: Path) -> Thing | None:
    """What the project itself would settle; None: nothing."""
    project = folder / OF_PROJECT
    return Thing(project, digest_of_files([project])) if project.is_file() else None


def home_warning(folder: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    if os.path.realpath(env.get("HOME") or "/nonexistent") != str(folder):
        return ()
    return ("This is your home folder: all that is in it counts as the project. Better start in a folder of its own.",)


def sandbox_for(settings: Settings, workspace: Workspace, env: Mapping[str, str]) -> Sandbox | str | None:
    """None: not wanted; text: why there can be none."""
    if settings.sandbox == "off":
        return None
    return made(settings, workspace, env)


def made(settings: Settings, workspace: Workspace, env: Mapping[str, str]) -> Sandbox | str:
    """Whether it is wanted or not."""
    program = find_bubblewrap(env)
    if program is None:
        return f"bubblewrap is not installed. {INSTALL}"
    sandbox = Sandbox(
        program,
        env,
        workspace.root,
        workspace.extra,
        network=settings.sandbox_network,
        home=settings.sandbox_home,
        readable=(prelude(),),
    )
    return sandbox.trial() or sandbox
