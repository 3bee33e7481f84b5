"""Unified diffs of what is on disk against what will be. A thin cover over difflib."""

from __future__ import annotations

import difflib

from agent.workspace.encoding import decode

LINES = 4_000  # difflib is quadratic on bad days; beyond this the preview only says the sizes
NO_END = "\\ No newline at end of file"


def unified(name: str, old: bytes, new: bytes) -> str:
    before, after = _lines(old), _lines(new)
    if [line.rstrip("\r") for line in before] != [line.rstrip("\r") for line in after]:
        before, after = ([line.rstrip("\r") for line in lines] for lines in (before, after))
    if max(len(before), len(after)) > LINES:
        return f"{name}: {len(before)} lines become {len(after)}"
    return "\n".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm=""))


def _lines(data: bytes) -> list[str]:
    """A last line without its end is not the same as one with it."""
    text = decode(data)
    if text is None:
        return [f"({len(data)} bytes that are no text)"]
    *lines, last = text.shown.split("\n")
    return [*lines, last, NO_END] if last else lines
