"""What the user has settled in `config.toml`: frozen data, and how it is read.

The user's own file decides. A project's file counts only where the caller hands it over, which it does for a trusted
folder, and even then it can make things stricter, never looser.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.errors import ConfigError


class Settings(BaseModel):
    """sandbox: `workspace` runs commands where they can write the project and a temporary folder only. sandbox_network:
    they may use the network there. sandbox_home: paths below the home folder that they can read, besides the usual
    places of tools."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    sandbox: Literal["off", "workspace"] = "off"
    sandbox_network: bool = False
    sandbox_home: tuple[str, ...] = ()


# What a project's file may say, given what holds without it.
STRICTER: Mapping[str, Callable[[Any, Settings], bool]] = {
    "sandbox": lambda value, now: value == "workspace" or value == now.sandbox,
    "sandbox_network": lambda value, now: value is False or value == now.sandbox_network,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """`warnings`: a sentence for each file that says what is not known, or not allowed there."""

    settings: Settings
    warnings: tuple[str, ...] = ()


def load_settings(user: Path, project: Path | None = None) -> Loaded:
    """Missing files say nothing. Raises ConfigError for one that cannot be read or holds a wrong value."""
    said = _read(user)
    settings = _valid(said, user)
    warnings = [_unknown(said, user)]
    if project is not None:
        said = _read(project)
        wished = _valid(said, project)
        known = {key: getattr(wished, key) for key in said if key in Settings.model_fields}
        stricter = {k: v for k, v in known.items() if k in STRICTER and STRICTER[k](v, settings)}
        warnings.append(_unknown(said, project))
        if refused := sorted(known.keys() - stricter.keys()):
            warnings.append(f"{project}: {', '.join(refused)} is left out; only your own file can allow that.")
        settings = settings.model_copy(update=stricter)
    return Loaded(settings, tuple(w for w in warnings if w))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"Cannot read {file}: {error}.") from error


def _valid(said: Mapping[str, Any], file: Path) -> Settings:
    try:
        return Settings.model_validate_json(json.dumps(said, default=str))  # JSON has no tuples: strict, and lists fit
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def _unknown(said: Mapping[str, Any], file: Path) -> str:
    unknown = sorted(said.keys() - Settings.model_fields.keys())
    return f"{file}: not known and left out: {', '.join(unknown)}." if unknown else ""
