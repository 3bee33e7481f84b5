"""Real git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent.workspace.repo import branch_label


def git(root: Path, *arguments: str) -> None:
    who = {f"GIT_{w}_{p}": "a@b" for w in ("AUTHOR", "COMMITTER") for p in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, env={**os.environ, **who})


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-b", "main")
    (root / "a").write_text("1\n")
    git(root, "add", "a")
    git(root, "commit", "-m", "first")
    return root


def test_the_label_names_the_branch_and_marks_changes(repo: Path) -> None:
    assert branch_label(repo) == "main"
    (repo / "a").write_text("2\n")
    (repo / "sub").mkdir()
    assert branch_label(repo / "sub") == "main*"
    git(repo, "checkout", "-q", "--detach")
    assert len(branch_label(repo)) == 9


def test_no_repository_an_empty_and_a_broken_one_are_no_trouble(repo: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert branch_label(empty) == ""
    git(empty, "init", "-b", "main")
    assert branch_label(empty) == "main"
    (repo / ".git" / "HEAD").write_text("garbage")
    assert branch_label(repo) == ""


def test_variables_that_a_hook_left_behind_point_nowhere_else(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "a").write_text("2\n")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert branch_label(repo) == "main*"


def test_without_a_git_program_the_branch_is_still_known(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert branch_label(repo) == "main"


def test_looking_runs_nothing_of_the_repository(repo: Path) -> None:
    (repo / ".gitattributes").write_text("a filter=x\n")
    git(repo, "config", "core.fsmonitor", f"touch {repo}/ran")
    git(repo, "config", "filter.x.clean", f"touch {repo}/ran; cat")
    os.utime(repo / "a", (1, 1))
    branch_label(repo)
    assert not (repo / "ran").exists()
