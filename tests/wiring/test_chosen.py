"""Which profile runs: the first that says something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.config.paths import Paths
from agent.config.preferences import Preferences
from agent.errors import ConfigError
from agent.runtime.hardware import Gpu, Machine
from agent.runtime.planner import GIB
from agent.runtime.survey import suited
from agent.survey import Choice
from agent.wiring.engine import chosen
from agent.wiring.options import Options

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.from_env({"DFLASH_HOME": str(tmp_path)})
    (paths.config / "profiles").mkdir(parents=True)
    return paths


def profile(paths: Paths, env: dict[str, str] = NO_GPU, **options: str) -> str:
    return chosen(Options(Path(), **options), paths, env)[0].profile  # type: ignore[arg-type]


def test_flags_environment_configuration_and_the_last_choice_count_in_that_order(paths: Paths) -> None:
    assert profile(paths) == "smoke"
    Preferences(paths.preferences).choose(profile="qwen3.6-27b-dflash")
    assert profile(paths) == "qwen3.6-27b-dflash"
    (paths.config / "config.toml").write_text('profile = "gemma4-31b"\n[other]\nkey = 1\n')
    assert profile(paths) == "gemma4-31b"
    assert profile(paths, NO_GPU | {"DFLASH_PROFILE": "own"}) == "own"
    assert profile(paths, NO_GPU | {"DFLASH_PROFILE": "own"}, profile="smoke") == "smoke"
    assert chosen(Options(Path(), server="http://x"), paths, NO_GPU)[0] == Choice(server="http://x")


def test_a_server_that_was_chosen_last_counts_for_the_conversation_and_not_for_the_engines(paths: Paths) -> None:
    Preferences(paths.preferences).choose(server="http://127.0.0.1:1")
    assert chosen(Options(Path()), paths, NO_GPU)[0] == Choice(server="http://127.0.0.1:1")
    assert chosen(Options(Path()), paths, NO_GPU, own=True)[0] == Choice(profile="smoke")


def test_a_last_choice_that_is_no_longer_there_is_passed_over(paths: Paths) -> None:
    own = paths.config / "profiles" / "own.toml"
    own.write_text('[model]\nkind = "file"\npath = "/m.gguf"\n')
    Preferences(paths.preferences).choose(profile="own")
    assert profile(paths) == "own"
    own.unlink()
    assert profile(paths) == "smoke"


@pytest.mark.parametrize("text", ["profile = 1", "profile = [", "\xff"])
def test_a_configuration_that_cannot_be_read_is_named(paths: Paths, text: str) -> None:
    (paths.config / "config.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"config\.toml"):
        profile(paths)


@pytest.mark.parametrize("text", ["", "[]", '{"profile": 1, "server": null, "load_seconds": [1]}', "\xff"])
def test_a_damaged_memory_is_no_memory_and_can_be_written_again(paths: Paths, text: str) -> None:
    paths.state.mkdir()
    paths.preferences.write_bytes(text.encode("latin-1"))
    kept = Preferences(paths.preferences)
    assert (kept.profile, kept.server, kept.load_seconds("smoke")) == ("", "", None)
    kept.loaded("smoke", 2.34)
    kept.choose(profile="smoke")
    assert json.loads(paths.preferences.read_text()) | {"server": ""} == {
        "profile": "smoke",
        "server": "",
        "load_seconds": {"smoke": 2.3},
    }


@pytest.mark.parametrize(
    ("gib", "name", "why"),
    [
        ((), "smoke", "none was found"),
        ((8, 16), "smoke", "the largest here has 16"),
        ((23.99,), "gemma4-31b-dflash", "a GPU with 24 GiB was found"),
        ((8, 22), "gemma4-31b-dflash", "a GPU with 22 GiB was found"),
    ],
)
def test_a_big_card_gets_the_big_model_and_the_reason_is_said(gib: tuple[float, ...], name: str, why: str) -> None:
    cards = tuple(Gpu(f"card {n}", "", int(size * GIB), int(size * GIB)) for n, size in enumerate(gib))
    found, reason = suited(Machine(gpus=cards, no_gpu="" if cards else "no driver"))
    assert found == name and why in reason
