"""What the user has sent, over all sessions and folders: the composer's history. One JSON string a line."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

KEPT = 500  # prompts
LONGEST = 20_000  # characters; what is longer was pasted and is not remembered
FILE_LIMIT = 4_000_000  # bytes; past this the file is cut to the prompts that are kept


class PromptHistory:
    """A file that cannot be read or written is no reason not to run."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def load(self) -> list[str]:
        """The newest prompts, oldest first; of equal neighbours one."""
        try:
            lines = self._file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        found: list[str] = []
        for line in lines[-2 * KEPT :]:
            with contextlib.suppress(ValueError):
                text = json.loads(line)
                if isinstance(text, str) and text.strip() and found[-1:] != [text]:
                    found.append(text)
        found = found[-KEPT:]
        with contextlib.suppress(OSError):
            if self._file.stat().st_size > FILE_LIMIT:
                self._rewrite(found)
        return found

    def add(self, text: str) -> None:
        if len(text) > LONGEST:
            return
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "ab") as file:  # one write of one line: windows may share the file
                file.write(json.dumps(text).encode("ascii") + b"\n")

    def _rewrite(self, texts: list[str]) -> None:
        part = self._file.with_suffix(".part")
        part.write_text("".join(f"{json.dumps(t)}\n" for t in texts), encoding="ascii")
        part.chmod(0o600)
        part.replace(self._file)
