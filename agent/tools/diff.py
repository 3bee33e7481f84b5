"""Unified diffs of what is on disk against what will be. A thin cover over difflib."""

from __future__ import annotations

import difflib
import re

from agent.workspace.encoding import decode

LINES = 4_000  # difflib is quadratic on bad days; beyond this the preview only says the sizes
NO_END = "\\ No newline at end of file"


def unified(name: str, old: bytes, new: bytes) -> str:
    before, after = _lines(old), _lines(new)
    if (plain := [_plain(line) for line in before]) != (wanted := [_plain(line) for line in after]):
        before, after = plain, wanted
    if max(len(before), len(after)) > LINES:
        return f"{name}: {len(before)} lines become {len(after)}"
    rows = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "\n".join(row[:-1] if row.endswith("\n") else f"{row}\n{NO_END}" for row in rows)


def _lines(data: bytes) -> list[str]:
    """With their ends: a last line without one is not the same as one with it."""
    text = decode(data)
    shown = f"({len(data)} bytes that are no text)\n" if text is None else text.shown
    *lines, last = shown.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _plain(line: str) -> str:
    return re.sub(r"\r+(?=\n?$)", "", line)
