"""What git says of the project, read only."""

from __future__ import annotations

from pathlib import Path

import git
import git.exc


def branch_label(root: Path) -> str:
    """`main`, `main*` with uncommitted changes, a short hash when detached; empty outside a repository or when git
    has any trouble. Takes no locks and runs nothing of the repository's own."""
    try:
        with git.Repo(root, search_parent_directories=True) as repo:
            # said outright, so that what a hook left in our environment does not lead to another repository
            places = {"GIT_DIR": str(repo.git_dir), "GIT_WORK_TREE": str(repo.working_tree_dir or root)}
            index = {"GIT_INDEX_FILE": str(Path(repo.git_dir) / "index")}
            repo.git.update_environment(**places, **index, GIT_OPTIONAL_LOCKS="0")
            head = repo.head
            label = repo.active_branch.name if not head.is_detached else head.commit.hexsha[:8]
            changed = repo.git.execute(
                ["git", "-c", "core.fsmonitor=false", "status", "--porcelain", "--untracked-files=no"],
                kill_after_timeout=2,
            )
            return f"{label}*" if changed else label
    except (git.exc.GitError, OSError, ValueError, TypeError):
        return ""
