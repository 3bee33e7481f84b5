"""Profiles: the built-in ones, and those that users write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.config.profile import ModelSource, Profile, known_profiles, load_profile, rungs
from agent.errors import ConfigError


def test_the_smoke_profile_drafts_from_the_context_and_says_that_it_cannot_code() -> None:
    profile = load_profile("smoke", [])
    assert "cannot code" in profile.note and rungs(profile) == ("ngram", "plain") and not profile.gpu


def test_the_big_profiles_fall_back_step_by_step() -> None:
    assert rungs(load_profile("gemma4-31b-dflash", [])) == ("dflash", "mtp", "ngram", "plain")
    assert rungs(load_profile("qwen3.6-27b-dflash", [])) == ("dflash", "ngram", "plain")
    assert rungs(load_profile("gemma4-31b", [])) == ("plain",)


def test_the_baseline_differs_from_its_dflash_profile_in_speculation_alone() -> None:
    dflash, plain = load_profile("gemma4-31b-dflash", []), load_profile("gemma4-31b", [])
    assert dflash.model_copy(update={"name": plain.name, "draft": None, "mtp": None, "ngram": None}) == plain


def test_every_built_in_model_of_a_hub_says_about_how_large_it_is() -> None:
    for name in known_profiles([]):
        profile = load_profile(name, [])
        for source in (profile.model, profile.draft, profile.mtp):
            assert source is None or source.kind != "hub" or source.bytes


def test_a_draft_may_be_named_by_its_path_alone(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('draft = "~/d.gguf"\nmtp = "/m.gguf"\n[model]\nkind = "smollm2-wheel"\n')
    profile = load_profile("own", [tmp_path])
    assert profile.draft == ModelSource(kind="file", path=Path("~/d.gguf").expanduser())
    assert profile.mtp == ModelSource(kind="file", path=Path("/m.gguf")) and rungs(profile)[:2] == ("dflash", "mtp")


def test_the_example_of_the_docs_is_a_whole_profile(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text(encoding="utf-8")
    (tmp_path / "own.toml").write_text(text.partition("```toml\n")[2].partition("```")[0])
    profile = load_profile("own", [tmp_path])
    assert profile.model_fields_set == set(Profile.model_fields) and len(rungs(profile)) == 4


def test_the_least_context_is_never_above_the_wished_one(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('ctx = 1024\n[model]\nkind = "smollm2-wheel"\n')
    assert load_profile("own", [tmp_path]).min_ctx == 1024


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[model", "own.toml"),
        ('[model]\nkind = "smollm2-wheel"\n[sampling]\nheat = 1', "sampling.heat"),
        ('[model]\nkind = "file"', "model.path"),
        ('[model]\nkind = "hub"\nrepo = "someone/thing"', "model.file: is missing"),
        ('[model]\nkind = "hub"\nrepo = "no-owner"\nfile = "m.gguf"', "model.repo"),
        ('[model]\nkind = "smollm2-wheel"\nfile = "m.gguf"', "model.file: does not go with"),
        ('draft = 3\n[model]\nkind = "smollm2-wheel"', "draft"),
        ('kv = []\n[model]\nkind = "smollm2-wheel"', "kv"),
        ('[model]\nkind = "smollm2-wheel"\n[flags]\nollama = ["-v"]', "flags.ollama"),
        ('spec_type = "ngram-mod"\n[model]\nkind = "smollm2-wheel"', "spec_type"),
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
        with pytest.raises(ConfigError, match=r"gemma4-31b, gemma4-31b-dflash, mine, qwen3\.6-27b-dflash, smoke"):
            load_profile(name, [tmp_path])


def test_a_profile_that_cannot_be_read_says_why_and_is_not_called_unknown(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "lost.toml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    for name, says in (("pipe", "It is a pipe"), ("lost", "No such file"), ("bytes", "not UTF-8 text")):
        with pytest.raises(ConfigError, match=says) as caught:
            load_profile(name, [tmp_path])
        assert f"{name}.toml" in str(caught.value) and "Errno" not in str(caught.value)
    assert not {"pipe", "lost"} & set(known_profiles([tmp_path]))


def test_a_home_relative_model_path_is_understood(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[model]\nkind = "file"\npath = "~/m.gguf"\n')
    assert load_profile("mine", [tmp_path]).model.path == Path("~/m.gguf").expanduser()
