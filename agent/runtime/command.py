"""The engine's command line and environment, as pure functions of profile, dialect and plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent.config.profile import Profile, Rung, rungs
from agent.errors import RuntimeFailure
from agent.runtime.dialect import Dialect
from agent.runtime.plan import Plan

HIDDEN_PREFIXES = ("LLAMA_", "GGML_", "OPENAI_", "HF_", "DFLASH_", "CUDA_LAUNCH")
# Hidden states of the target that the drafter of BeeLlama 0.2-0.3 sees, in tokens. Its default of 512 costs acceptance
# in long contexts; 1024 is the guide's value. Later engines keep them all.
CROSS_CTX = 1024
MTP_DRAFT_MAX = 4  # Gemma's MTP drafter is trained for so many (nextn_predict_layers); acceptance falls with each

_Flag: TypeAlias = tuple[str, str | int | float | Path | None]


@dataclass(frozen=True, slots=True)
class Files:
    """What one launch runs. draft, mtp: for the rungs dflash and mtp. template: in place of the model's own."""

    binary: Path
    model: Path
    draft: Path | None = None
    mtp: Path | None = None
    template: Path | None = None


def ladder(profile: Profile, dialect: Dialect) -> tuple[Rung, ...]:
    """The profile's rungs that this engine can run, the fastest first."""
    can = {
        "dflash": dialect.dflash is not None,
        "mtp": "draft-mtp" in dialect.spec_types,
        "ngram": "ngram-mod" in dialect.spec_types,
        "plain": True,
    }
    return tuple(rung for rung in rungs(profile) if can[rung])


def build_command(profile: Profile, dialect: Dialect, plan: Plan, files: Files, rung: Rung, port: int) -> list[str]:
    """argv for a llama-server that binds loopback only. The API key is not in it: anyone may read a command line.
    Raises RuntimeFailure for a rung that the engine or the files do not allow."""
    argv = [str(files.binary)]
    for flag, value in (
        *_server(profile, dialect, files, port),
        *_memory(dialect, plan),
        *_speculation(profile, dialect, plan, files, rung),
        *_replies(profile),
    ):
        # An engine that lists no such flag is left to its own ways: an unknown flag would keep it from starting.
        if dialect.has(flag):
            argv += [flag] if value is None else [flag, str(value)]
    return [*argv, *profile.flags.get("any", ()), *profile.flags.get(dialect.name, ())]


def _server(profile: Profile, dialect: Dialect, files: Files, port: int) -> Iterator[_Flag]:
    yield from (("--model", files.model), ("--alias", profile.title), ("--host", "127.0.0.1"), ("--port", port))
    yield from (("--parallel", 1), ("--jinja", None), ("--metrics", None))
    if files.template is not None:
        yield "--chat-template-file", files.template
    yield "--no-webui" if dialect.has("--no-webui") else "--no-ui", None
    if dialect.trace:
        yield "--verbosity", 4


def _memory(dialect: Dialect, plan: Plan) -> Iterator[_Flag]:
    yield from (("--ctx-size", plan.ctx), ("--batch-size", plan.batch), ("--ubatch-size", plan.ubatch))
    yield from (("--cache-ram", plan.cache_ram), ("--ctx-checkpoints", plan.checkpoints))
    if (plan.cache_type_k, plan.cache_type_v) != ("f16", "f16"):  # what every engine does by itself
        yield from (("--cache-type-k", plan.cache_type_k), ("--cache-type-v", plan.cache_type_v))
    if plan.gpu:
        yield from (("--gpu-layers", "all"), ("--flash-attn", "on"), ("--kv-unified", None), ("--no-host", None))
    if plan.gpu or plan.mlock:  # a model that goes to the GPU is read once; mapping it would only fill the page cache
        yield "--load-mode", "+".join(m for m, on in (("mmap", not plan.gpu), ("mlock", plan.mlock)) if on) or "none"
        if not dialect.has("--load-mode"):
            yield from (f for f, on in ((("--no-mmap", None), plan.gpu), (("--mlock", None), plan.mlock)) if on)
    if plan.threads is not None:
        yield from (("--threads", plan.threads), ("--threads-batch", plan.threads))


def _speculation(profile: Profile, dialect: Dialect, plan: Plan, files: Files, rung: Rung) -> Iterator[_Flag]:
    if rung not in ladder(profile, dialect):
        raise RuntimeFailure(
            f"This engine ({dialect.version}) cannot run profile {profile.name} with {rung}. Start with --no-dflash."
        )
    types: list[str] = []
    if rung in ("dflash", "mtp"):
        draft = files.draft if rung == "dflash" else files.mtp
        if draft is None:
            raise RuntimeFailure(f"The draft model for {rung} of profile {profile.name} is missing.")
        types.append(dialect.dflash or "" if rung == "dflash" else "draft-mtp")
        most = profile.draft_max if rung == "dflash" else min(profile.draft_max, MTP_DRAFT_MAX)
        yield from (("--spec-draft-model", draft), ("--spec-draft-n-max", most))
        if rung == "dflash":
            yield "--spec-dflash-cross-ctx", CROSS_CTX
        if plan.gpu:
            yield "--spec-draft-ngl", "all"
    ngram = profile.ngram if "ngram-mod" in dialect.spec_types else None
    if ngram is not None and (rung == "ngram" or (types and dialect.spec_list)):
        # beside a draft model the engine asks it first, and the draft where it finds nothing
        types.append("ngram-mod")
        yield from (("--spec-ngram-mod-n-match", ngram.match), ("--spec-ngram-mod-n-min", ngram.min))
        yield "--spec-ngram-mod-n-max", ngram.max
        if ngram.hits is not None:
            yield "--spec-ngram-mod-min-hits", ngram.hits
    if types:
        yield "--spec-type", ",".join(types)


def _replies(profile: Profile) -> Iterator[_Flag]:
    sampling = profile.sampling
    for flag, value in (
        ("--temp", sampling.temperature),
        ("--top-k", sampling.top_k),
        ("--top-p", sampling.top_p),
        ("--min-p", sampling.min_p),
    ):
        if value is not None:
            yield flag, value
    if not profile.thinking:
        yield "--reasoning", "off"


def engine_environment(env: Mapping[str, str], key: str, home: Path) -> dict[str, str]:
    """The user's environment without anything that would change the engine behind our back: its own variables, proxies,
    and the configuration file it would find under HOME."""
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith(HIDDEN_PREFIXES) and not name.lower().endswith("_proxy")
    }
    return kept | {
        "LLAMA_API_KEY": key,
        "GGML_NO_BACKTRACE": "1",  # an abort would start a debugger and take seconds
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
    }
