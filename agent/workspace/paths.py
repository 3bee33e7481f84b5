"""Where the project ends. Knows paths, not what is done with them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolFailure

PROTECTED_FOLDERS = (".git", ".dflash")
STARTUP_FILES = frozenset(
    f".{name}" for name in ("bashrc", "bash_profile", "bash_login", "profile", "zshrc", "zshenv", "zprofile", "envrc")
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """`root` and `extra` are resolved folders."""

    root: Path
    extra: tuple[Path, ...] = ()

    def locate(self, file: str) -> Path:
        """Absolute path of what the model named, its own last link unresolved. Raises ToolFailure."""
        if not file.strip() or "\0" in file:
            raise ToolFailure("The file name is empty. Name a file.")
        return self.root / os.path.expanduser(file)

    def outside(self, path: Path) -> bool:
        """Does it lead out of the project, or to a place in it that could run things later?"""
        try:
            real = path.resolve()
        except (OSError, RuntimeError):
            return True
        inside = next((base for base in (self.root, *self.extra) if real.is_relative_to(base)), None)
        if inside is None:
            return True
        parts = real.relative_to(inside).parts
        return any(p in PROTECTED_FOLDERS for p in parts) or (bool(parts) and parts[-1] in STARTUP_FILES)

    def shown(self, path: Path) -> str:
        """Relative to the project where it lies in it; with the target where a link leads elsewhere."""
        name = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
        try:
            real = path.resolve()
        except (OSError, RuntimeError):
            return name
        return name if real.is_relative_to(self.root) else f"{name} → {real}" if str(real) != name else name
