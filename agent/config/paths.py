"""Where things lie, as a function of an environment mapping. Creates nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ConfigError

APP = "dflash-agent"


@dataclass(frozen=True, slots=True)
class Paths:
    """config: the user's own files, never rewritten. state: sessions, logs, locks. data: engines. cache: models
    that come from no hub. `DFLASH_HOME` moves all four under one folder; otherwise the XDG rules hold."""

    config: Path
    state: Path
    data: Path
    cache: Path

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Paths:
        """Raises ConfigError when no home can be found or DFLASH_HOME is not an absolute path."""
        if home := env.get("DFLASH_HOME"):
            base = Path(os.path.expanduser(home))  # stays as it is where there is no such user
            if not base.is_absolute():
                raise ConfigError(f"DFLASH_HOME must be an absolute path, not {home!r}.")
            return cls(base / "config", base / "state", base / "data", base / "cache")

        def xdg(variable: str, fallback: str) -> Path:
            value = env.get(variable, "")
            if value and Path(value).is_absolute():  # the XDG specification: relative values are to be ignored
                return Path(value) / APP
            user_home = env.get("HOME", "")
            if not user_home or not Path(user_home).is_absolute():
                raise ConfigError("No home folder: set HOME, or DFLASH_HOME to a folder where dflash-agent may write.")
            return Path(user_home) / fallback / APP

        return cls(
            xdg("XDG_CONFIG_HOME", ".config"),
            xdg("XDG_STATE_HOME", ".local/state"),
            xdg("XDG_DATA_HOME", ".local/share"),
            xdg("XDG_CACHE_HOME", ".cache"),
        )

    @property
    def settings(self) -> Path:
        return self.config / "config.toml"

    @property
    def trust(self) -> Path:
        return self.state / "trust.json"

    @property
    def engines(self) -> Path:
        return self.data / "engines"

    @property
    def models(self) -> Path:
        return self.cache / "models"

    @property
    def sessions(self) -> Path:
        return self.state / "sessions"

    @property
    def preferences(self) -> Path:
        return self.state / "preferences.json"

    @property
    def logs(self) -> Path:
        return self.state / "logs"
