"""What git says of the project, read only."""

from __future__ import annotations

from pathlib import Path

import git
import git.exc

_LEAKED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")


def branch_label(root: Path) -> str:
    """`main`, `main*` with uncommitted changes, a short hash when detached; empty outside a repository or when git
    has any trouble. Takes no locks and runs nothing of the repository's own."""
    try:
        with git.Repo(root, search_parent_directories=True) as repo:
            for name in _LEAKED:  # set by a hook that started us, they would point at another repository
                repo.git.update_environment(**{name: ""})
            repo.git.update_environment(GIT_OPTIONAL_LOCKS="0")
            head = repo.head
            label = repo.active_branch.name if not head.is_detached else head.commit.hexsha[:8]
            changed = repo.git.execute(
                ["git", "-c", "core.fsmonitor=false", "status", "--porcelain", "--untracked-files=no"],
                kill_after_timeout=2,
            )
            return f"{label}*" if changed else label
    except (git.exc.GitError, OSError, ValueError, TypeError):
        return ""
