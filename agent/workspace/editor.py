"""The user's own editor for a longer message. Blocks until it has ended."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agent.errors import ConfigError

USUAL = ("sensible-editor", "nano", "vim", "vi")  # where neither $VISUAL nor $EDITOR is set


def edit(text: str, env: Mapping[str, str]) -> str:
    """What the user made of `text`; needs the terminal. Raises ConfigError."""
    argv = _editor(env)
    with tempfile.TemporaryDirectory(prefix="dflash-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(f"{text}\n" if text else "", encoding="utf-8")
        try:
            done = subprocess.run([*argv, str(file)], env=dict(env), check=False)
            if done.returncode != 0:
                raise ConfigError(f"{argv[0]} ended with status {done.returncode}; your text is as it was.")
            return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
        except OSError as error:
            raise ConfigError(f"Cannot run the editor {argv[0]}: {error.strerror}; your text is as it was.") from error


def _editor(env: Mapping[str, str]) -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        try:
            if words := shlex.split(env.get(name, "")):
                return words
        except ValueError as error:
            raise ConfigError(f"${name} cannot be read: {error}.") from error
    found = next((path for name in USUAL if (path := shutil.which(name, path=env.get("PATH", os.defpath)))), None)
    if found is None:
        raise ConfigError("There is no editor; set EDITOR to one.")
    return [found]
