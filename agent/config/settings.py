"""What is settled in `config.toml`: frozen data, how it is read, and who said what.

The user's own file decides. A project's file counts only where the caller hands it over, which it does for a trusted
folder, and even then it can make things stricter, never looser. Files are read, never written.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.config.plainfile import read_text
from agent.errors import ConfigError

MODES = ("plan", "ask", "accept-edits", "auto")  # the strictest first
_RULES = 'a list of rules, such as ["Bash(npm test:*)"]'


class Rules(BaseModel):
    """Permission rules as they are written."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    deny: tuple[str, ...] = Field((), title=_RULES)
    ask: tuple[str, ...] = Field((), title=_RULES)
    allow: tuple[str, ...] = Field((), title=_RULES)


class Settings(BaseModel):
    """Of each: `title` tells what it must be, `description` what it does."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    profile: str = Field("", title='a name, such as "smoke"', description="which engine, model and draft run")
    permission_mode: Literal["plan", "ask", "accept-edits", "auto"] = Field(
        "ask",
        title='"plan", "ask", "accept-edits" or "auto"',
        description="what needs no question when a session starts",
    )
    sandbox: Literal["off", "workspace"] = Field(
        "off",
        title='"off" or "workspace"',
        description="whether commands can write no more than the project and a temporary folder",
    )
    sandbox_network: bool = Field(False, title="true or false", description="whether they may use the network there")
    sandbox_home: tuple[str, ...] = Field(
        (),
        title='a list of paths below your home folder, such as [".cargo"]',
        description="what of your home folder they can read there, besides the usual places of tools",
    )
    permissions: Rules = Field(
        default_factory=lambda: Rules.model_validate({}),
        title="a table with allow, ask and deny",
        description="what is allowed, asked and denied: docs/permissions.md",
    )


# What a project's file may say, given what holds without it. Its permission rules are added to the user's.
STRICTER: Mapping[str, Callable[[Any, Settings], bool]] = {
    "permission_mode": lambda value, now: MODES.index(value) <= MODES.index(now.permission_mode),
    "sandbox": lambda value, now: value == "workspace" or value == now.sandbox,
    "sandbox_network": lambda value, now: value is False or value == now.sandbox_network,
}


@dataclass(frozen=True, slots=True)
class Said:
    """One file's word on a key. `counts`: it may say that at all; the last one that may decides."""

    key: str
    value: Any
    source: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Loaded:
    """`warnings`: a sentence for each file that says what is not known, or not allowed there. `said`: in the order in
    which it counts."""

    settings: Settings
    warnings: tuple[str, ...] = ()
    said: tuple[Said, ...] = ()


def load_settings(user: Path, project: Path | None = None) -> Loaded:
    """Missing files say nothing. Raises ConfigError for one that cannot be read or holds a wrong value."""
    written = _read(user)
    settings = _valid(written, user)
    warnings = [_unknown(written, user)]
    said = [Said(key, getattr(settings, key), str(user)) for key in written if key in Settings.model_fields]
    if project is not None:
        written = _read(project)
        wished = _valid(written, project)
        known = {key: getattr(wished, key) for key in written if key in Settings.model_fields and key != "permissions"}
        stricter = {k: v for k, v in known.items() if k in STRICTER and STRICTER[k](v, settings)}
        warnings.append(_unknown(written, project))
        if refused := sorted(known.keys() - stricter.keys()):
            warnings.append(f"{project}: {', '.join(refused)} is left out; only your own file can allow that.")
        said += [Said(key, value, str(project), key in stricter) for key, value in known.items()]
        settings = settings.model_copy(update=stricter)
    return Loaded(settings, tuple(w for w in warnings if w), tuple(said))


def with_environment(loaded: Loaded, env: Mapping[str, str]) -> Loaded:
    """The one setting that a variable may overrule."""
    if not (name := env.get("DFLASH_PROFILE", "")):
        return loaded
    said = (*loaded.said, Said("profile", name, "DFLASH_PROFILE"))
    return replace(loaded, settings=loaded.settings.model_copy(update={"profile": name}), said=said)


def rules_in(file: Path) -> Rules:
    """The permission rules of one file, whatever else it holds. Raises ConfigError."""
    written = _read(file)
    return _valid({key: written[key] for key in written if key == "permissions"}, file).permissions


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(file))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"Cannot read {file}: {error.strerror}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from error
    except RecursionError:
        raise ConfigError(f"{file} is not valid TOML: it is nested too deeply.") from None


def _valid(written: Mapping[str, Any], file: Path) -> Settings:
    try:
        return Settings.model_validate_json(json.dumps(written, default=str))  # JSON has no tuples: strict, lists fit
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{file}: {_sentence(first['loc'])}") from error


def _sentence(place: tuple[int | str, ...]) -> str:
    """What is wrong with the value that stands there."""
    names = [part for part in place if isinstance(part, str)]
    known = Rules.model_fields if names[0] == "permissions" and len(names) > 1 else Settings.model_fields
    name = ".".join(names)
    if (field := known.get(names[-1])) is None:
        return f"{name} is not known; there are {', '.join(known)}."
    return f"{name} must be {field.title}."


def _unknown(written: Mapping[str, Any], file: Path) -> str:
    unknown = sorted(written.keys() - Settings.model_fields.keys())
    return f"{file}: not known and left out: {', '.join(unknown)}." if unknown else ""
