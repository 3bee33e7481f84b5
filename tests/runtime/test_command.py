"""Profiles and the command lines made of them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from agent.config.profile import load_profile
from agent.errors import ConfigError
from agent.runtime.command import build_command, engine_environment


def test_the_smoke_profile_drafts_from_the_context_and_says_that_it_cannot_code() -> None:
    profile = load_profile("smoke", [])
    argv = build_command(profile, Path("/e/llama-server"), Path("/m.gguf"), None, 4711)
    pairs = list(itertools.pairwise(argv))
    for pair in (("--host", "127.0.0.1"), ("--port", "4711"), ("--ctx-size", "8192"), ("--parallel", "1")):
        assert pair in pairs
    for pair in (
        ("--spec-type", "ngram-mod"),
        ("--spec-ngram-mod-n-match", "6"),
        ("--temp", "0.2"),
        ("--top-p", "0.9"),
    ):
        assert pair in pairs
    assert "cannot code" in profile.note and "--spec-draft-model" not in argv


def test_the_engine_sees_our_key_and_nothing_that_would_change_it() -> None:
    env = {
        "PATH": "/bin",
        "LLAMA_ARG_CTX_SIZE": "1",
        "HF_TOKEN": "t",
        "https_proxy": "p",
        "HTTP_PROXY": "p",
        "HOME": "/h",
    }
    made = engine_environment(env, "secret", Path("/logs"))
    assert made["LLAMA_API_KEY"] == "secret" and made["PATH"] == "/bin" and made["GGML_NO_BACKTRACE"] == "1"
    assert not made.keys() & {"LLAMA_ARG_CTX_SIZE", "HF_TOKEN", "https_proxy", "HTTP_PROXY"}
    assert made["XDG_CONFIG_HOME"] == "/logs"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[model", "own.toml"),
        ('[model]\nkind = "smollm2-wheel"\n[sampling]\nheat = 1', "sampling.heat"),
        ('[model]\nkind = "file"', "model.path"),
        ('ctx = 1\n[model]\nkind = "smollm2-wheel"', "ctx"),
    ],
)
def test_a_bad_profile_names_the_file_and_the_key(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        load_profile("own", [tmp_path])
    assert "own.toml" in str(caught.value)


def test_an_unknown_profile_names_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[model]\nkind = "smollm2-wheel"\n')
    for name in ("gone", "../mine", ""):
        with pytest.raises(ConfigError, match="mine, smoke"):
            load_profile(name, [tmp_path])


def test_a_home_relative_model_path_is_understood(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[model]\nkind = "file"\npath = "~/m.gguf"\n')
    assert load_profile("mine", [tmp_path]).model.path == Path("~/m.gguf").expanduser()
