"""Where the project ends. Knows paths, not what is done with them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolFailure

PROTECTED = frozenset((".git", ".dflash", ".ssh", ".gitconfig"))
STARTUP_FILES = frozenset(
    f".{name}"
    for name in (
        *("bashrc", "bash_profile", "bash_login", "bash_logout", "profile", "envrc", "kshrc", "cshrc", "tcshrc"),
        *("zshrc", "zshenv", "zprofile", "zlogin", "zlogout"),
    )
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """`root` and `extra` are resolved folders, and so are `lent`, which may grow: what lies there may be read freely,
    and no more. Symbolic links are followed to say where a file is."""

    root: Path
    extra: tuple[Path, ...] = ()
    lent: Sequence[Path] = ()

    def locate(self, file: str) -> Path:
        """Absolute path of what the model named, its own last link unresolved. Raises ToolFailure."""
        if not file.strip() or "\0" in file:
            raise ToolFailure("The file name is empty. Name a file.")
        return self.root / os.path.expanduser(file)

    def real(self, path: Path) -> Path:
        """Where it really lies, links followed; what a chain of links without an end names is the link itself, and so
        does one that may not be read, as those of other users' processes in /proc."""
        try:
            return Path(os.path.realpath(path))
        except OSError:
            return Path(os.path.abspath(path))

    def outside(self, path: Path) -> bool:
        """Does it lead out of the project, or to a place in it that could run things later?"""
        return self.beyond(path) or self.protected(path)

    def beyond(self, path: Path) -> bool:
        real = self.real(path)
        return not any(real.is_relative_to(base) for base in (self.root, *self.extra))

    def protected(self, path: Path) -> bool:
        """A place that could run things later, in the project or elsewhere."""
        real = self.real(path)
        inside = next((base for base in (self.root, *self.extra) if real.is_relative_to(base)), None)
        # some file systems do not tell .GIT from .git
        parts = [p.lower() for p in (real.relative_to(inside) if inside else real).parts]
        return any(p in PROTECTED for p in parts) or (bool(parts) and parts[-1] in STARTUP_FILES)

    def readable(self, path: Path) -> bool:
        """May it be read without a question?"""
        real = self.real(path)
        return not self.outside(path) or any(real.is_relative_to(base) for base in self.lent)

    def shown(self, path: Path) -> str:
        """Relative to the project where it lies in it; with the target where a link leads elsewhere."""
        name = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
        real = self.real(path)
        if not real.is_relative_to(self.root) and str(real) != name:
            name = f"{name} → {real}"
        return name.encode("utf-8", "replace").decode()  # a name on disk may hold bytes that are no text
