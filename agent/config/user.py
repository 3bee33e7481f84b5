"""The user's own configuration, `config.toml`. Read, never written."""

from __future__ import annotations

import tomllib
from pathlib import Path

from agent.errors import ConfigError


def pinned_profile(file: Path) -> str:
    """`profile = "NAME"` in `file`; "" where it says nothing of that. Raises ConfigError."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"Cannot read {file}: {error}.") from error
    name = data.get("profile", "")
    if not isinstance(name, str):
        raise ConfigError(f'{file}: profile must be a name, as in profile = "smoke".')
    return name
