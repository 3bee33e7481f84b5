"""What is looked for before an engine starts. The engine here is a script with the manifest of a built one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.config.paths import Paths
from agent.config.profile import ModelSource, Profile, load_profile
from agent.errors import RuntimeFailure
from agent.progress import Phase, Report
from agent.runtime.provision import SMOKE_BYTES, SMOKE_MEMBER, provide, provide_smoke_model
from agent.runtime.supervisor import Provision
from tests.real.tiny import make_tiny
from tests.runtime.dialects import HELP

ENV = {"PATH": os.environ["PATH"]}
GPU = "  CUDA0: Some GPU (24000 MiB, 23000 MiB free)"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.from_env({"DFLASH_HOME": str(tmp_path)})


def install(paths: Paths, speaks: str, devices: str = "  (none)", backend: str = "cpu") -> None:
    folder = paths.engines / "some"
    folder.mkdir(parents=True)
    binary = folder / "llama-server"
    binary.write_text(
        f"#!/bin/sh\ncase $1 in --help) cat '{HELP[speaks]}' ;; --list-devices) echo '{devices}' ;; esac\n"
    )
    binary.chmod(0o755)
    facts = {"binary": "llama-server", "version": "v1", "backend": backend, "built_at": "2026-01-01"}
    facts |= {"cmake_flags": [], "binary_sha256": ""}
    (folder / "manifest.json").write_text(json.dumps(facts))


def profile(folder: Path, **more: object) -> Profile:
    source = ModelSource(kind="file", path=folder / "some.gguf")
    return Profile.model_validate({"name": "own", "title": "Own", "model": source, **more})


async def provided(profile: Profile, paths: Paths) -> Provision:
    return await provide(profile, paths, ENV, lambda phase: None, offline=True, fetch=nothing)


async def nothing(sources: Sequence[ModelSource], report: Report) -> list[Path]:
    raise RuntimeFailure(f"fetched {[s.repo for s in sources]}")


async def test_a_start_gets_its_files_and_the_first_rung_that_the_engine_can_run(paths: Paths, tmp_path: Path) -> None:
    install(paths, "beellama-0.2", GPU, "cuda")
    make_tiny(tmp_path).target.rename(tmp_path / "some.gguf")
    (tmp_path / "mtp.gguf").touch()
    own = profile(tmp_path, mtp=str(tmp_path / "mtp.gguf"), ngram={}, gpu=True, ctx=2048, kv=[["q8_0", "q8_0"]])
    found = await provided(own, paths)
    assert found.rungs == ("ngram", "plain") and found.dialect.name == "beellama-0.2"  # this dialect has no MTP
    assert (found.files.model, found.files.draft, found.files.mtp) == (
        tmp_path / "some.gguf",
        None,
        tmp_path / "mtp.gguf",
    )
    plan = found.planner.first("ngram")
    assert plan.room < 23 << 30  # what the engine sees of a card that NVML does not know
    assert (plan.ctx, plan.cache_type_k, plan.cache_type_v, plan.gpu, plan.mlock) == (2048, "q8_0", "q8_0", True, True)


async def test_a_model_or_draft_that_is_missing_is_named(paths: Paths, tmp_path: Path) -> None:
    install(paths, "llama.cpp")
    with pytest.raises(RuntimeFailure, match=r"some\.gguf is not there"):
        await provided(profile(tmp_path), paths)
    (tmp_path / "some.gguf").touch()
    with pytest.raises(RuntimeFailure, match=r"draft\.gguf is not there"):
        await provided(profile(tmp_path, draft=str(tmp_path / "draft.gguf")), paths)


async def test_all_files_on_the_hub_are_fetched_together_once_an_engine_can_run_them(paths: Paths) -> None:
    gemma = load_profile("gemma4-31b-dflash", [])
    with pytest.raises(RuntimeFailure, match="needs a GPU, and none was found"):
        await provided(gemma, paths)
    install(paths, "beellama-0.4", GPU, "cuda")
    with pytest.raises(RuntimeFailure, match=r"fetched \['unsloth/gemma-4-31B-it-GGUF', 'Anbeeld/"):
        await provided(gemma, paths)


async def test_a_profile_for_a_gpu_does_not_start_without_one(paths: Paths, tmp_path: Path) -> None:
    install(paths, "llama.cpp")
    make_tiny(tmp_path).target.rename(tmp_path / "some.gguf")
    with pytest.raises(RuntimeFailure, match="needs a GPU, and none was found"):
        await provided(profile(tmp_path, gpu=True), paths)
    assert (await provided(profile(tmp_path), paths)).rungs == ("plain",)


async def test_a_draft_that_cannot_serve_is_refused_before_anything_is_started(paths: Paths, tmp_path: Path) -> None:
    install(paths, "llama.cpp")
    tiny = make_tiny(tmp_path)
    model = ModelSource(kind="file", path=tiny.target)
    own = Profile.model_validate({"name": "own", "title": "Own", "model": model, "draft": str(tiny.target), "ctx": 512})
    found = await provided(own, paths)
    assert found.rungs == ("dflash", "plain") and "is not a DFlash drafter" in found.refused["dflash"]
    good = await provided(own.model_copy(update={"draft": ModelSource(kind="file", path=tiny.draft)}), paths)
    assert not good.refused


async def test_the_plan_that_worked_is_where_the_next_start_begins(paths: Paths, tmp_path: Path) -> None:
    install(paths, "llama.cpp")
    make_tiny(tmp_path).target.rename(tmp_path / "some.gguf")
    first = await provided(profile(tmp_path, ctx=4096, min_ctx=512), paths)
    smaller = first.planner.smaller("plain", first.planner.first("plain"))
    assert smaller
    first.planner.worked("plain", smaller)
    second = await provided(profile(tmp_path, ctx=4096, min_ctx=512), paths)
    assert second.planner.first("plain").rung == smaller.rung > 0


def smoke_file(paths: Paths) -> Path:
    paths.models.mkdir(parents=True, exist_ok=True)
    return paths.models / Path(SMOKE_MEMBER).name


async def test_the_small_model_is_read_whole_once_and_again_only_when_its_file_has_changed(
    paths: Paths, smollm2: Path
) -> None:
    model = smoke_file(paths)
    shutil.copy(smollm2, model)
    phases: list[Phase] = []
    for _ in range(2):
        assert await provide_smoke_model(paths, ENV, phases.append, offline=True) == model
    assert [str(p) for p in phases] == ["checking the model"]
    with model.open("r+b") as file:
        file.seek(-1_000_000, os.SEEK_END)
        file.write(bytes(1_000_000))
    with pytest.raises(RuntimeFailure, match="is damaged, and --offline forbids") as caught:
        await provide_smoke_model(paths, ENV, phases.append, offline=True)
    assert str(model) in str(caught.value)


@pytest.mark.parametrize("size", [0, SMOKE_BYTES])
async def test_a_damaged_small_model_is_fetched_again_after_saying_so(paths: Paths, size: int) -> None:
    model = smoke_file(paths)
    model.touch()
    os.truncate(model, size)
    phases: list[Phase] = []
    with pytest.raises(RuntimeFailure, match="could not be fetched"):
        await provide_smoke_model(paths, ENV | {"PIP_NO_INDEX": "1"}, phases.append, offline=False)
    assert f"the model {model} is damaged and is fetched again" in map(str, phases)
    assert phases[-1].words == "fetching the model" and phases[-1].total
