"""AGENTS.md: what the user and the project want the agent to know. Text only: it can allow nothing."""

from __future__ import annotations

import os
from pathlib import Path

NAMES = ("AGENTS.md", "CLAUDE.md")  # the first that is there, in each folder
LIMIT = 8192  # bytes in all: a local context is small, and this part is read before every first word


def read_instructions(folder: Path, config: Path) -> str:
    """The user's own file, then those from the repository's root down to `folder`; empty when there are none. Where
    all of it is too long, the nearest file counts most and what is farther off is cut."""
    chain = [folder, *folder.parents]
    root = next((n for n, parent in enumerate(chain) if os.path.exists(parent / ".git")), 0)
    parts: list[str] = []
    left = LIMIT
    for place in dict.fromkeys((*chain[: root + 1], config)):
        file = next((place / n for n in NAMES if os.path.isfile(place / n)), None)
        data = _read(file) if file else b""
        if not data or file is None:
            continue
        note = "" if len(data) <= left else f"\n[cut: all instructions together may have {LIMIT} bytes]"
        text = data[:left].decode("utf-8", "ignore" if note else "replace")
        left -= min(left, len(data))
        name = str(file).encode("utf-8", "replace").decode()
        parts.append(f"# Instructions from {name}\n\n{text}{note}")
    return "\n\n".join(reversed(parts))


def _read(file: Path) -> bytes:
    """One byte more than can be used, to know that it was too long."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LIMIT + 64)  # room for the byte order mark and the white space that goes
    except OSError:
        return b""
    return data.removeprefix(b"\xef\xbb\xbf").strip()
