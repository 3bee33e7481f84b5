"""The console commands as a stranger meets them: every run is a real process, the engine a faulty one or none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.real.tiny import make_tiny
from tests.runtime.dialects import HELP

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "doctor.schema.json").read_text())
PATH = os.environ["PATH"]


def run(home: Path, *arguments: str, path: str = PATH) -> subprocess.CompletedProcess[str]:
    env = {"PATH": path, "HOME": str(home), "DFLASH_HOME": str(home / "dflash"), "LANG": "C.UTF-8"}
    argv = [sys.executable, "-P", "-m", "agent", *arguments]
    return subprocess.run(argv, env=env, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A home with an engine that can be told to fail, and a profile `own` of a tiny model."""
    engine = tmp_path / "dflash" / "data" / "engines" / "fake"
    engine.mkdir(parents=True)
    text = (ROOT / "tests" / "fakes" / "engine.py").read_text()
    (engine / "llama-server").write_text(text.replace("/usr/bin/env python3", sys.executable, 1))
    (engine / "llama-server").chmod(0o755)
    shutil.copy(HELP["llama.cpp"], engine / "help.txt")
    (engine / "faults.json").write_text("{}")
    manifest = {"binary": "llama-server", "version": "b1", "backend": "cpu", "built_at": "2026-01-01"}
    (engine / "manifest.json").write_text(json.dumps(manifest | {"cmake_flags": [], "binary_sha256": ""}))
    profiles = tmp_path / "dflash" / "config" / "profiles"
    profiles.mkdir(parents=True)
    model = make_tiny(tmp_path / "models").target
    (profiles / "own.toml").write_text(f'title = "Tiny"\nctx = 1024\n[model]\nkind = "file"\npath = "{model}"\n')
    return tmp_path


def doctor(home: Path, *arguments: str, path: str = PATH) -> tuple[int, dict[str, Any]]:
    done = run(home, "doctor", "--json", *arguments, path=path)
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    assert done.returncode == (0 if report["ok"] else 3)
    return done.returncode, report


def check(report: dict[str, Any], name: str) -> dict[str, Any]:
    return next(c for c in report["checks"] if c["name"] == name)


# ---- doctor
def test_doctor_finds_all_that_a_profile_needs(installed: Path) -> None:
    status, report = doctor(installed, "--profile", "own")
    assert status == 0 and check(report, "model")["status"] == "ok"
    assert "speaks llama.cpp" in check(report, "engine")["found"]
    assert report["plan"][0].startswith("context 1024 tokens")
    text = run(installed, "doctor", "--profile", "own").stdout
    assert "✓ model" in text and text.endswith("Profile own can start.\n")


def test_doctor_names_what_is_missing_with_the_remedy(tmp_path: Path) -> None:
    status, report = doctor(tmp_path, "--profile", "gemma4-31b-dflash")
    assert status == 3
    for name in ("GPU", "engine"):
        assert check(report, name)["status"] == "missing" and check(report, name)["remedy"]
    assert "17.4 GB" in check(report, "model")["found"] and check(report, "model")["status"] == "warning"


def test_doctor_names_missing_tools_only_where_they_are_needed(installed: Path, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    (empty / "git").symlink_to(shutil.which("git") or "")
    assert check(doctor(installed, "--profile", "own", path=str(empty))[1], "tools")["status"] == "ok"
    shutil.rmtree(installed / "dflash" / "data")
    tools = check(doctor(installed, "--profile", "own", path=str(empty))[1], "tools")
    assert tools["status"] == "missing" and "cmake" in tools["remedy"] and "g++" in tools["remedy"]


def test_doctor_says_of_a_damaged_model_what_is_wrong(installed: Path) -> None:
    model = installed / "models" / "tiny-gemma4.gguf"
    model.write_bytes(model.read_bytes()[:5000])
    status, report = doctor(installed, "--profile", "own")
    assert status == 3 and any("tiny-gemma4.gguf cannot be used" in c["found"] for c in report["checks"])


def test_doctor_says_whether_the_sandbox_works_here(tmp_path: Path) -> None:
    works = "bubblewrap works here" in check(doctor(tmp_path)[1], "sandbox")["found"]
    config = tmp_path / "dflash" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('sandbox = "workspace"')
    found = check(doctor(tmp_path)[1], "sandbox")
    assert found["found"].startswith("on, and" if works else "on, but") and (found["status"] == "ok") == works
    missing = check(doctor(tmp_path, path="/nowhere")[1], "sandbox")
    assert missing["status"] == "warning" and "sudo apt install bubblewrap" in missing["found"]
    config.write_text("sandbox = 1")
    assert str(config) in check(doctor(tmp_path)[1], "settings")["found"]


# ---- setup
def test_a_dry_run_for_a_gpu_shows_the_whole_plan_on_a_machine_without_one(tmp_path: Path) -> None:
    done = run(tmp_path, "setup", "--dry-run", "--profile", "gemma4-31b-dflash")
    assert done.returncode == 3 and "needs a GPU, and none was found" in done.stderr
    for words in (
        "-DGGML_CUDA_FA_ALL_QUANTS=ON",
        "-DCMAKE_CUDA_ARCHITECTURES=89",
        "would fetch gemma-4-31B-it-Q4_K_S.gguf of unsloth/gemma-4-31B-it-GGUF, about 17.4 GB",
        "gemma4-31b-it-dflash-Q5_K_M.gguf",
        "drafter KV cache",
        "GiB usable",
    ):
        assert words in done.stdout, words
    assert not (tmp_path / "dflash" / "data").exists()


def test_setup_tells_the_measured_speed_and_leaves_no_engine_running(installed: Path) -> None:
    done = run(installed, "setup", "--yes", "--profile", "own")
    assert done.returncode == 0, done.stderr
    assert "Tiny is ready: no drafts, context 1,024 tokens, 100 tok/s in its first answer." in done.stdout
    assert run(installed, "server", "status").returncode == 3


def test_a_setup_that_fails_shows_the_engines_last_words(installed: Path) -> None:
    faults = {"say": ["\x1b[31mGGML_ASSERT(x) failed"], "exit": 1}
    (installed / "dflash" / "data" / "engines" / "fake" / "faults.json").write_text(json.dumps(faults))
    done = run(installed, "setup", "--profile", "own")
    assert done.returncode == 3 and "GGML_ASSERT(x) failed" in done.stderr and "\x1b" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("dflash-agent: ") and "Traceback" not in done.stderr


# ---- server
def test_a_started_engine_stays_is_seen_serves_and_is_stopped(installed: Path) -> None:
    try:
        started = run(installed, "server", "start", "--profile", "own")
        assert started.returncode == 0 and started.stdout.startswith("Tiny runs at http://127.0.0.1:"), started.stderr
        (engine,) = json.loads(run(installed, "server", "status", "--json").stdout)["engines"]
        assert (engine["profile"], engine["rung"], engine["ctx"], engine["answers"]) == ("own", "plain", 1024, True)
        assert "key" not in engine
        text = run(installed, "server", "status").stdout
        assert "tiny-gemma4.gguf" in text and "speaks llama.cpp" in text and "100 tok/s" in text and "KV cache" in text
        said = run(installed, "--profile", "own", "-p", "hi")
        assert said.returncode == 0 and "fibonacci" in said.stdout
        (again,) = json.loads(run(installed, "server", "status", "--json").stdout)["engines"]
        assert again["pid"] == engine["pid"]  # the window that has come and gone did not end it
        restarted = run(installed, "server", "restart", "--profile", "own")
        assert restarted.returncode == 0 and "Stopped own" in restarted.stdout
    finally:
        stopped = run(installed, "server", "stop")
    assert stopped.returncode == 0 and stopped.stdout.startswith("Stopped own (pid ")
    assert run(installed, "server", "stop").stdout == "No engine runs.\n"
    assert run(installed, "server", "status").returncode == 3


def test_the_log_is_shown_also_after_the_end(installed: Path) -> None:
    assert run(installed, "server", "logs").returncode == 3
    faults = {"say": ["first words", "bad \x1b[31m colour"], "exit": 1}
    (installed / "dflash" / "data" / "engines" / "fake" / "faults.json").write_text(json.dumps(faults))
    run(installed, "server", "start", "--profile", "own")
    done = run(installed, "server", "logs", "--profile", "own")
    assert done.returncode == 0 and "first words" in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["server"], "verb"),
        (["server", "dance"], "invalid choice"),
        (["server", "start", "--profile", "nonsense"], "There is no profile 'nonsense'"),
        (["doctor", "--ctx", "none"], "not a whole number"),
        (["setup", "--profile", "../x"], "is not the name of a profile"),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr and done.stdout == ""
