"""Which engine on this disk is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.runtime.engines import cpu_key, find_engine, list_engines


def engine(engines: Path, name: str, built_at: str, **changes: object) -> Path:
    folder = engines / name
    folder.mkdir(parents=True)
    (folder / "llama-server").write_text("#!/bin/sh\n")
    (folder / "llama-server").chmod(0o755)
    manifest = {
        "version": "v0.4.7",
        "backend": "cpu",
        "cmake_flags": ["-DGGML_AVX=ON"],
        "binary": "llama-server",
        "binary_sha256": "5" * 64,
        "cpu": cpu_key(),
        "built_at": built_at,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    return folder


def test_engines_are_listed_newest_first_with_what_is_known_of_them(tmp_path: Path) -> None:
    old = engine(tmp_path, "z-old", "2026-01-02T03:04:05Z")
    new = engine(tmp_path, "a-new", "2026-02-02T03:04:05Z", version="b11434", backend="cuda", cmake_flags=[], cpu="")
    first, second = list_engines(tmp_path)
    assert (first.path, first.version, first.backend, first.flags) == (new, "b11434", "cuda", ())
    assert (second.path, second.flags, second.sha256) == (old, ("-DGGML_AVX=ON",), "5" * 64)
    assert second.binary == old / "llama-server"


def test_the_newest_engine_for_this_processor_is_used(tmp_path: Path) -> None:
    engine(tmp_path, "old", "2026-01-01T00:00:00Z")
    usable = engine(tmp_path, "usable", "2026-01-02T00:00:00Z")
    engine(tmp_path, "elsewhere", "2026-01-03T00:00:00Z", cpu="another")
    found = find_engine(tmp_path)
    assert found is not None and found.path == usable
    assert [e.path.name for e in list_engines(tmp_path)] == ["elsewhere", "usable", "old"]


def test_an_engine_for_every_processor_is_used_too(tmp_path: Path) -> None:
    engine(tmp_path, "release", "2026-01-01T00:00:00Z", cpu="")
    assert find_engine(tmp_path) is not None


def test_one_backend_can_be_asked_for(tmp_path: Path) -> None:
    cuda = engine(tmp_path, "cuda", "2026-01-01T00:00:00Z", backend="cuda")
    engine(tmp_path, "cpu", "2026-01-02T00:00:00Z")
    found = find_engine(tmp_path, "cuda")
    assert found is not None and found.path == cuda
    assert find_engine(tmp_path, "vulkan") is None


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"binary": "llama-server"}', "\udcff"])
def test_a_manifest_that_is_not_whole_is_no_engine(tmp_path: Path, text: str) -> None:
    folder = engine(tmp_path, "broken", "2026-01-03T00:00:00Z")
    (folder / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
    usable = engine(tmp_path, "usable", "2026-01-01T00:00:00Z")
    assert [e.path for e in list_engines(tmp_path)] == [usable]


def test_a_binary_that_is_gone_or_cannot_be_run_is_no_engine(tmp_path: Path) -> None:
    (engine(tmp_path, "gone", "2026-01-01T00:00:00Z") / "llama-server").unlink()
    (engine(tmp_path, "plain", "2026-01-01T00:00:00Z") / "llama-server").chmod(0o644)
    assert list_engines(tmp_path) == []


def test_what_the_setup_script_is_still_at_is_no_engine(tmp_path: Path) -> None:
    engine(tmp_path, ".staging-0123456789ab", "2026-01-01T00:00:00Z")
    assert list_engines(tmp_path) == []


def test_no_folder_of_engines_is_no_engine(tmp_path: Path) -> None:
    assert list_engines(tmp_path / "none") == [] and find_engine(tmp_path / "none") is None
