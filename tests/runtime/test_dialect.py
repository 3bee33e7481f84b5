"""What an engine says about itself. The scripts here are real programs that answer as an engine would."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agent.errors import RuntimeFailure
from agent.runtime.dialect import Device, parse_devices, probe_engine, read_dialect
from tests.runtime.dialects import HELP, dialect

ENV = {"PATH": os.environ["PATH"]}
BROKEN = '{"format": 1, "dialect": {"name": "klingon", "version": 3, "flags": []}}'


def program(file: Path, body: str) -> Path:
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


def engine(folder: Path, dialect_name: str, note: str = "") -> Path:
    """Answers like an engine and writes down what it was asked."""
    return program(
        folder / "llama-server",
        f"""# {note}
echo "$1" >> {folder}/asked
case "$1" in
--version) echo 'version: 0.4.7 (build 10900)' >&2 ;;
--help) cat '{HELP[dialect_name]}' ;;
--list-devices) printf 'Available devices:\\n  CUDA0: Some GPU (24000 MiB, 23000 MiB free)\\n' ;;
esac""",
    )


def asked(folder: Path) -> list[str]:
    words = (folder / "asked").read_text().split()
    (folder / "asked").unlink()
    return words


@pytest.mark.parametrize("name", HELP)
def test_each_surface_is_told_apart_by_its_help(name: str) -> None:
    read = dialect(name)
    assert read.name == name and read.version == name
    assert read.dflash == ("dflash" if name == "beellama-0.2" else "draft-dflash")
    assert read.spec_list == (name != "beellama-0.2")
    assert read.has("--spec-dflash-cross-ctx") == (name == "beellama-0.2")
    assert read.has("--load-mode") == (name == "llama.cpp") == read.trace != read.has("--no-mmap")
    assert {"f16", "q8_0", "q5_0"} <= set(read.kv_types) and "default" not in read.kv_types
    for flag in ("--no-webui", "--cache-ram", "--ctx-checkpoints", "-np", "--no-host", "--kv-unified", "--reasoning"):
        assert read.has(flag), flag


def test_a_flag_that_the_help_lists_as_removed_is_not_understood() -> None:
    assert not dialect("llama.cpp").has("--draft-max") and not dialect("beellama-0.4").has("--draft-max")


def test_an_engine_before_dflash_has_none() -> None:
    old = read_dialect("version: 6000", "--spec-type [none|ngram-simple]    kind\n-m, --model FNAME    file")
    assert old.name == "llama.cpp" and old.dflash is None and old.spec_types == ("none", "ngram-simple")
    assert not read_dialect("", "").flags


def test_a_pair_of_cache_types_is_fast_only_where_its_kernel_is_built() -> None:
    up, bee = dialect("llama.cpp"), dialect("beellama-0.4")
    assert up.fast_kv("q8_0", "q8_0") and not up.fast_kv("q5_0", "q4_1") and bee.fast_kv("q5_0", "q4_1")
    assert not bee.fast_kv("f16", "q8_0") and not read_dialect("", "").fast_kv("f16", "f16")


def test_devices_are_read_with_their_memory() -> None:
    text = """warn: something
Available devices:
  CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 23671 MiB free)
  Vulkan1: AMD Radeon (RADV NAVI31) (24560 MiB, 100 MiB free)
"""
    assert parse_devices(text) == (
        Device("CUDA0", "NVIDIA GeForce RTX 4090", 24217, 23671),
        Device("Vulkan1", "AMD Radeon (RADV NAVI31)", 24560, 100),
    )
    assert parse_devices("Available devices:\n  (none)\n") == () == parse_devices("")


async def test_an_engine_is_asked_once_and_its_devices_each_time(tmp_path: Path) -> None:
    binary = engine(tmp_path, "beellama-0.4")
    first, devices = await probe_engine(binary, tmp_path / "cache", ENV)
    assert asked(tmp_path) == ["--version", "--help", "--list-devices"]
    assert first.name == "beellama-0.4" and first.version == "0.4.7 (build 10900)"
    assert devices == (Device("CUDA0", "Some GPU", 24000, 23000),)
    assert (await probe_engine(binary, tmp_path / "cache", ENV))[0] == first
    assert asked(tmp_path) == ["--list-devices"]


async def test_another_build_at_the_same_place_is_asked_again(tmp_path: Path) -> None:
    await probe_engine(engine(tmp_path, "beellama-0.4"), tmp_path / "cache", ENV)
    engine(tmp_path, "beellama-0.2", note="rebuilt")
    assert (await probe_engine(tmp_path / "llama-server", tmp_path / "cache", ENV))[0].name == "beellama-0.2"
    asked(tmp_path)
    (tmp_path / "libllama.so").write_text("a program that is only a stub changes with its libraries")
    await probe_engine(tmp_path / "llama-server", tmp_path / "cache", ENV)
    assert "--help" in asked(tmp_path)


@pytest.mark.parametrize("rubbish", [b"", b"\xff\xfe", b"[]", b'{"format": 0}', BROKEN.encode()])
async def test_rubbish_in_the_cache_is_read_afresh(tmp_path: Path, rubbish: bytes) -> None:
    binary = engine(tmp_path, "llama.cpp")
    first, _ = await probe_engine(binary, tmp_path / "cache", ENV)
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(rubbish)
    assert (await probe_engine(binary, tmp_path / "cache", ENV))[0] == first
    assert len(asked(tmp_path)) == 6 and file.read_bytes() != rubbish


async def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert (await probe_engine(engine(tmp_path, "llama.cpp"), tmp_path / "cache", ENV))[0].name == "llama.cpp"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("kill -ILL $$", "built for another processor. Build the engine again"),
        ("exit 3", "--version ended with status 3"),
        ("echo hello", "is not a llama-server"),
        (
            "echo 'x: error while loading shared libraries: libcuda.so.1: cannot open' >&2; exit 127",
            "lacks the library libcuda.so.1. Install the NVIDIA driver",
        ),
    ],
)
async def test_each_kind_of_broken_engine_gets_its_own_sentence(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(RuntimeFailure, match=says):
        await probe_engine(program(tmp_path / "llama-server", body), tmp_path / "cache", ENV)
    assert not (tmp_path / "cache").exists()


async def test_what_is_no_program_gets_its_own_sentence(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="is not there"):
        await probe_engine(tmp_path / "llama-server", tmp_path, ENV)
    (tmp_path / "llama-server").write_bytes(b"\x7fELF no more")
    with pytest.raises(RuntimeFailure, match=r"chmod \+x"):
        await probe_engine(tmp_path / "llama-server", tmp_path, ENV)
    (tmp_path / "llama-server").chmod(0o755)
    with pytest.raises(RuntimeFailure, match="no program for this machine"):
        await probe_engine(tmp_path / "llama-server", tmp_path, ENV)


@pytest.mark.real
async def test_the_real_engine_speaks_as_its_captured_help_says(binary: Path, tmp_path: Path) -> None:
    real, devices = await probe_engine(binary, tmp_path, os.environ)
    golden = dialect("llama.cpp")
    assert (real.flags, real.spec_types, real.kv_types) == (golden.flags, golden.spec_types, golden.kv_types)
    assert "11434" in real.version and all(d.total >= d.free for d in devices)


@pytest.mark.real
async def test_the_real_engine_without_its_libraries_names_one(binary: Path, tmp_path: Path) -> None:
    shutil.copy(binary, tmp_path / "llama-server")
    with pytest.raises(RuntimeFailure, match=r"lacks the library lib\S+\.so"):
        await probe_engine(tmp_path / "llama-server", tmp_path / "cache", ENV)
