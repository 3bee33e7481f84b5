"""What git says of the project, read only."""

from __future__ import annotations

import os
from pathlib import Path

import git
import git.exc

SECONDS = 2.0  # a status that takes longer is not worth a wait: the label then stands without its star


def branch_label(root: Path) -> str:
    """`main`, `main*` with uncommitted changes, a short hash when detached; empty outside a repository or when git
    has any trouble. Takes no locks and runs no hook, monitor or filter of the repository's."""
    try:
        with git.Repo(root, search_parent_directories=True) as repo:
            head = repo.head
            label = head.commit.hexsha[:8] if head.is_detached else repo.active_branch.name
            return f"{label}*" if _changed(repo) else label
    except (git.exc.GitError, OSError, ValueError, TypeError):
        return ""


def _changed(repo: git.Repo) -> bool:
    """False too when git itself cannot be run or refuses: the name of the branch is known all the same."""
    # A hook that started us may have set these for another repository; they cannot be unset, only set right.
    repo.git.update_environment(
        GIT_DIR=str(repo.git_dir),
        GIT_COMMON_DIR=str(repo.common_dir),
        GIT_WORK_TREE=str(repo.working_tree_dir),
        GIT_INDEX_FILE=os.path.join(repo.git_dir, "index"),
        GIT_OBJECT_DIRECTORY=os.path.join(repo.common_dir, "objects"),
        GIT_OPTIONAL_LOCKS="0",
    )
    safe = ["git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"]
    try:
        # The repository's filters are programs: a folder nobody trusts yet must not run them by being looked at.
        found: str = repo.git.execute(
            [*safe, "config", "--name-only", "--get-regexp", r"^filter\."], with_exceptions=False
        )
        for name in found.split():
            safe += ["-c", f"{name}="]
        status = [*safe, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"]
        return bool(repo.git.execute(status, kill_after_timeout=SECONDS))
    except (git.exc.GitError, OSError):
        return False
