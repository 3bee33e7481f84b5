"""What a repository's own configuration would make git run, before git is asked anything. Reads files only."""

from __future__ import annotations

import re
from pathlib import Path

# Keys whose value is a program, or another file with such keys, that commands which only look would run or read.
_RUNS = re.compile(
    r"^\s*(?:fsmonitor|textconv|external|clean|smudge|process|command|program|sshcommand|path)\s*=\s*(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_PLAIN = re.compile(r"\"?(?:true|false|yes|no|on|off|0|1|git-lfs [\w -]+(?:%f)?)?\"?\s*\Z", re.IGNORECASE)
_SUBMODULE_PATH = re.compile(r"^\s*\[submodule [^\]]*\][^\[]*", re.IGNORECASE | re.MULTILINE)
LONGEST = 1_000_000  # bytes of a configuration; one that is longer is not a person's


def runs_programs(folder: Path) -> bool:
    """Would git, asked in this folder, run what the repository around it names? True too where a folder that is not
    called .git is one for git, as one checked out from a repository may be, and where it cannot be read."""
    try:
        for place in (folder, *folder.parents):
            inside = place / ".git"
            if inside.is_dir():
                return _named(inside)
            if inside.is_file():
                target = place / inside.read_text(errors="replace").removeprefix("gitdir:").strip()
                return _named(target)
            if (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir():
                return True
    except OSError:
        return True
    return False


def _named(folder: Path) -> bool:
    common = folder / "commondir"
    places = {folder, folder / common.read_text(errors="replace").strip()} if common.is_file() else {folder}
    for file in (p / name for p in places for name in ("config", "config.worktree")):
        if not file.is_file():
            continue
        if file.stat().st_size > LONGEST:
            return True
        text = _SUBMODULE_PATH.sub("", file.read_text(errors="replace"))
        if any(not _PLAIN.match(m[1].strip()) for m in _RUNS.finditer(text)):
            return True
    return False
