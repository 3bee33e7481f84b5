"""A wall around commands, made by bubblewrap: the project and a temporary folder can be written, the rest of the disk
only read, most of the home folder not even that, and there is no network unless the user allows it. Knows paths and
bubblewrap's options; starts nothing but its own trial."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

TRIAL = 5.0  # seconds; it takes some milliseconds
INSTALL = "Install it: sudo apt install bubblewrap (or dnf, pacman, zypper)."
# Below the home folder: where tools and their settings lie that hold no secrets.
TOOLS_AT_HOME = (
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/pnpm", ".local/share/mise", ".pyenv", ".nvm"),
    *(".cargo/bin", ".rustup", ".bun/bin", ".deno/bin", ".volta", "go/bin", ".asdf", ".sdkman", ".rbenv"),
    *(".gitconfig", ".config/git"),
)
# Written there, they would run later and outside: not even a command in the project changes them unseen.
GUARDED = (".dflash", ".git/hooks", ".git/config")
# What a failed command says when it ran into the wall.
_HIT = (
    *("Read-only file system", "EROFS", "Network is unreachable", "ENETUNREACH", "EAI_AGAIN", "ENOTFOUND"),
    *("Could not resolve host", "name resolution", "Name or service not known", "failed to lookup address"),
    "Device or resource busy",  # a guarded file, replaced
)


class Sandbox:
    """`root` and `extra`: folders that can be written. `home`: paths below the home folder that stay readable."""

    def __init__(
        self,
        program: str,
        env: Mapping[str, str],
        root: Path,
        extra: Sequence[Path] = (),
        *,
        network: bool = False,
        home: Sequence[str] = (),
        readable: Sequence[Path] = (),
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="dflash-agent-", ignore_cleanup_errors=True)
        at_home = Path(env.get("HOME") or "/nonexistent")
        hidden = ("--tmpfs", str(at_home)) if at_home.is_dir() else ()
        seen = [at_home / path for path in (*TOOLS_AT_HOME, *home)]
        self._options = (
            *(program, "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/run"),
            *_tries("--ro-bind-try", [Path("/run/systemd/resolve")]),
            *("--bind", self._temporary.name, "/tmp", "--setenv", "TMPDIR", "/tmp"),
            *hidden,
            *_tries("--ro-bind-try", seen),
            *_tries("--ro-bind-try", readable),
            *_tries("--bind", [root, *extra]),
            *_tries("--ro-bind-try", [root / name for name in GUARDED]),
            *("--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"),
            *(() if network else ("--unshare-net",)),
        )
        self.network = network

    def argv(self, argv: Sequence[str], folder: Path) -> tuple[str, ...]:
        return (*self._options, "--chdir", str(folder), "--", *argv)

    def trial(self) -> str:
        """Why it does not work here; empty when it does."""
        try:
            done = subprocess.run(
                self.argv(("/bin/sh", "-c", ":"), Path("/")),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TRIAL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap cannot be run: {error}."
        if not done.returncode:
            return ""
        said = done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        return f"bubblewrap is refused here ({said}); user namespaces may be switched off on this machine or container."


def find_bubblewrap(env: Mapping[str, str]) -> str | None:
    return shutil.which("bwrap", path=env.get("PATH", os.defpath))


def hit(output: str) -> bool:
    """Does a failed command's output look as if the wall was the reason?"""
    return any(word in output for word in _HIT)


def _tries(option: str, paths: Sequence[Path]) -> tuple[str, ...]:
    return tuple(word for path in paths for word in (option, str(path), str(path)))
