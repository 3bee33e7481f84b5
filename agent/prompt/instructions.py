"""AGENTS.md: what the user and the project want the agent to know. Text only: it can allow nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

NAMES = ("AGENTS.md", "CLAUDE.md")  # the first that is there, in each folder
LIMIT = 32_768  # bytes in all, as other agents have it
SHARE = 0.25  # of the context at most, whatever the limit: the rest is for the work
BYTES = 2.5  # for each token: commands, paths and tables have 2.5 to 3.2, prose more


def byte_limit(context: int) -> int:
    """`context` in tokens."""
    return min(LIMIT, int(context * SHARE * BYTES))


class Instructions:
    """The user's own file, then those from the repository's root down to `folder`. Where all of it is too long, the
    nearest file counts most and what is farther off is cut, visibly. What is left of the limit is for the files of
    folders below, which are given when something there is read."""

    def __init__(self, folder: Path, config: Path, limit: int = LIMIT) -> None:
        self._folder = folder
        self._limit = self._left = limit
        self.cut: list[Path] = []
        chain = [folder, *folder.parents]
        root = next((n for n, parent in enumerate(chain) if os.path.exists(parent / ".git")), 0)
        parts = [self._part(place) for place in dict.fromkeys((*chain[: root + 1], config))]
        self.text = "\n\n".join(reversed([p for p in parts if p]))

    def below(self, file: Path, holds: Callable[[str], bool]) -> str:
        """What stands in the folders between the session's and that of `file`, outermost first; empty where there is
        nothing that the conversation does not hold already. `file` is absolute, its links followed."""
        folder = Path(os.path.realpath(self._folder))
        if not file.is_relative_to(folder):
            return ""
        between = [p for p in file.parents if p != folder and p.is_relative_to(folder)]
        new = [p for p in reversed(between) if (there := _file_of(p)) and not holds(_heading(there))]
        return "\n\n".join(part for p in new if (part := self._part(p)))

    def _part(self, place: Path) -> str:
        file = _file_of(place)
        data = _read(file, self._limit) if file else b""
        if not data or file is None:
            return ""
        note = "" if len(data) <= self._left else f"\n[cut: all instructions together may have {self._limit} bytes]"
        if note:
            self.cut.append(file)
        text = data[: self._left].decode("utf-8", "ignore" if note else "replace")
        self._left -= min(self._left, len(data))
        return f"{_heading(file)}\n\n{text}{note}"


def _file_of(place: Path) -> Path | None:
    return next((place / n for n in NAMES if os.path.isfile(place / n)), None)


def _heading(file: Path) -> str:
    return f"# Instructions from {str(file).encode('utf-8', 'replace').decode()}"


def _read(file: Path, limit: int) -> bytes:
    """A little more than can be used, to know that it was too long."""
    try:
        with file.open("rb") as opened:
            data = opened.read(limit + 64)  # room for the byte order mark and the white space that goes
    except OSError:
        return b""
    return data.removeprefix(b"\xef\xbb\xbf").strip()
