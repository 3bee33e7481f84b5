"""The engine's command line and environment, as pure functions of a profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.config.profile import Profile

# Host RAM for conversations that left the one slot; 0 would make every return to one read it all again.
CACHE_RAM_MIB = 512
HIDDEN_PREFIXES = ("LLAMA_", "GGML_", "OPENAI_", "HF_", "DFLASH_", "CUDA_LAUNCH")


def build_command(profile: Profile, binary: Path, model: Path, draft: Path | None, port: int) -> list[str]:
    """argv for a llama-server that binds loopback only. The API key is not in it: anyone may read a command line."""
    argv = [str(binary), "--model", str(model), "--alias", profile.title, "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--parallel", "1", "--ctx-size", str(profile.ctx), "--jinja", "--metrics", "--no-webui"]
    argv += ["--cache-ram", str(CACHE_RAM_MIB)]
    if profile.threads is not None:
        argv += ["--threads", str(profile.threads), "--threads-batch", str(profile.threads)]
    if draft is not None:
        argv += ["--spec-draft-model", str(draft)]
    if profile.spec_type is not None:
        argv += ["--spec-type", profile.spec_type]
        for name, value in profile.spec.items():
            argv += [f"--{name}", str(value)]
    sampling = profile.sampling
    for flag, value in (
        ("--temp", sampling.temperature),
        ("--top-k", sampling.top_k),
        ("--top-p", sampling.top_p),
        ("--min-p", sampling.min_p),
    ):
        if value is not None:
            argv += [flag, str(value)]
    return [*argv, *profile.flags]


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
