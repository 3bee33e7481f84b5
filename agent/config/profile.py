"""A profile is data: which model, which draft, how to run them. Some ship with the product, users add their own."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from agent.errors import ConfigError

_File: TypeAlias = Annotated[Path, AfterValidator(Path.expanduser)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSource(_Frozen):
    """`smollm2-wheel`: the GGUF inside a package of the Python index. `file`: a GGUF on this disk."""

    kind: Literal["smollm2-wheel", "file"]
    path: _File | None = None


class Sampling(_Frozen):
    """None: what the model file itself says."""

    temperature: float | None = Field(default=None, ge=0)
    top_k: int | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    min_p: float | None = Field(default=None, ge=0, le=1)


class Profile(_Frozen):
    """ctx: wished context in tokens. threads: None: all cores. spec: further `--spec-…` flags, name to value.
    reply_limit: output tokens of one reply. note: what the user should know before the first message."""

    name: str
    title: str
    model: ModelSource
    draft: _File | None = None
    ctx: int = Field(default=8192, ge=256)
    threads: int | None = Field(default=None, ge=1)
    spec_type: str | None = None
    spec: dict[str, int | float | str] = {}
    sampling: Sampling = Sampling()
    flags: tuple[str, ...] = ()
    reply_limit: int | None = Field(default=None, ge=16)
    note: str = ""


def load_profile(name: str, folders: Sequence[Path]) -> Profile:
    """The first `NAME.toml` in `folders`, else the built-in one. Raises ConfigError."""
    if not name or Path(name).name != name:
        raise ConfigError(f"{name!r} is not the name of a profile. Known: {', '.join(known_profiles(folders))}.")
    for folder in folders:
        file = folder / f"{name}.toml"
        if file.is_file():
            try:
                return _parse(name, file.read_text(encoding="utf-8"), str(file))
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"Cannot read {file}: {error}.") from error
    built_in = resources.files("agent") / "runtime" / "profiles" / f"{name}.toml"
    if built_in.is_file():
        return _parse(name, built_in.read_text(encoding="utf-8"), f"{name}.toml")
    raise ConfigError(f"There is no profile {name!r}. Known: {', '.join(known_profiles(folders))}.")


def known_profiles(folders: Sequence[Path]) -> list[str]:
    built_in = {f.name for f in (resources.files("agent") / "runtime" / "profiles").iterdir()}
    own = {f.name for folder in folders if folder.is_dir() for f in folder.iterdir()}
    return sorted(n.removesuffix(".toml") for n in built_in | own if n.endswith(".toml"))


def _parse(name: str, text: str, where: str) -> Profile:
    try:
        data: dict[str, Any] = tomllib.loads(text)
        profile = Profile.model_validate({"title": name} | data | {"name": name})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from error
    if profile.model.kind == "file" and profile.model.path is None:
        raise ConfigError(f'{where}: model.path is missing; with kind = "file" it names the GGUF.')
    return profile
