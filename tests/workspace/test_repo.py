"""The branch in the status line, from real repositories in every state."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent.workspace.repo import branch_label


def git(folder: Path, *arguments: str) -> str:
    base = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    return subprocess.run([*base, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("a")
    git(folder, "add", "a")
    git(folder, "commit", "-qm", "one")
    return folder


def test_a_clean_and_a_changed_tree(repo: Path) -> None:
    (repo / "sub").mkdir()
    assert branch_label(repo / "sub") == "main"
    (repo / "a").write_text("b")
    assert branch_label(repo) == "main*"


def test_a_detached_head_is_a_short_hash(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    assert branch_label(repo) == git(repo, "rev-parse", "HEAD")[:8]


def test_no_repository_and_an_empty_one(tmp_path: Path) -> None:
    assert branch_label(tmp_path) == ""
    git(tmp_path, "init", "-q")
    assert branch_label(tmp_path) in ("main", "main*")


def test_a_repository_named_in_the_environment_is_not_ours(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert branch_label(repo) == "main"
