"""What the first run says of a machine and of each profile on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.config.paths import Paths
from agent.config.profile import ModelSource
from agent.runtime.survey import Disk, look
from agent.survey import Offer, Survey
from tests.real.tiny import make_tiny
from tests.runtime.test_provision import GPU, install

ENV = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.from_env({"DFLASH_HOME": str(tmp_path)})
    (paths.config / "profiles").mkdir(parents=True)
    return paths


def add(paths: Paths, name: str, text: str) -> None:
    (paths.config / "profiles" / f"{name}.toml").write_text(text)


def survey(paths: Paths, here: dict[str, Path] | None = None, come: int = 0, asked: str = "") -> Survey:
    def locate(source: ModelSource) -> Path | None:
        path = source.path if source.kind == "file" else (here or {}).get(source.file)
        return path if path is not None and path.is_file() else None

    disk = Disk(locate, lambda source: come, paths.cache / "hub")
    return look(paths, ENV, disk, (asked, "Asked for.") if asked else None, lambda name: 4.2 if name == "own" else None)


def offer(found: Survey, name: str) -> Offer:
    chosen = found.offer(name)
    assert chosen is not None
    return chosen


def test_nothing_is_here_at_first_and_what_each_profile_takes_is_said(paths: Paths) -> None:
    found = survey(paths, come=400_000_000)
    assert found.proposed == "smoke" and found.offers[0].profile == "smoke" and "none was found" in found.why
    facts = dict(found.found)
    assert facts["GPU"].startswith("none: ") and facts["Engine"] == facts["Models"] == "none yet"
    smoke, gemma = offer(found, "smoke"), offer(found, "gemma4-31b-dflash")
    assert [(n.kind, n.here, n.effort) for n in smoke.needs] == [
        ("engine", False, "5 to 20 min"),
        ("model", False, ""),
    ]
    assert smoke.quantisation == "Q4_1" and not smoke.ready and smoke.to_fetch == 98_362_432 and not smoke.obstacle
    assert gemma.quantisation == "Q4_K_S" and "needs a GPU, and none was found" in gemma.obstacle
    assert gemma.needs[1].come == 400_000_000


def test_what_is_here_is_seen_and_the_plan_is_that_of_its_header(paths: Paths, tmp_path: Path) -> None:
    install(paths, "llama.cpp")
    tiny = make_tiny(tmp_path / "m")
    text = 'title = "Own"\nctx = 10_000_000\n[model]\nkind = "hub"\nrepo = "a/b"\nfile = "x-UD-Q4_K_XL.gguf"\n'
    add(paths, "own", text)
    assert offer(survey(paths), "own").quantisation == "Q4_K_XL"  # by its name alone
    found = survey(paths, {"x-UD-Q4_K_XL.gguf": tiny.target}, asked="own")
    own = offer(found, "own")
    assert found.offers[0] is own and found.why == "Asked for." and own.ready and own.to_fetch == 0
    assert own.ctx == 131_072 and own.load_s == 4.2  # what the model was trained with, as the plan says
    assert dict(found.found)["Engine"] == "v1 (cpu)" and dict(found.found)["Models"] == tiny.target.name


def test_an_engine_that_computes_on_a_card_counts_where_its_driver_shows_none(paths: Paths) -> None:
    install(paths, "beellama-0.4", GPU, "vulkan")
    assert not offer(survey(paths), "gemma4-31b-dflash").obstacle


def test_a_profile_that_is_wrong_or_lacks_its_file_says_so_and_hides_no_other(paths: Paths, tmp_path: Path) -> None:
    add(paths, "wrong", "ctx = [")
    add(paths, "lost", f'[model]\nkind = "file"\npath = "{tmp_path}/absent.gguf"\n')
    (tmp_path / "page.gguf").write_text("<html>")
    add(paths, "page", f'[model]\nkind = "file"\npath = "{tmp_path}/page.gguf"\n')
    found = survey(paths)
    assert "wrong.toml" in offer(found, "wrong").obstacle
    assert "absent.gguf is not there" in offer(found, "lost").obstacle
    assert "page.gguf" in offer(found, "page").obstacle
    assert not offer(found, "smoke").obstacle
