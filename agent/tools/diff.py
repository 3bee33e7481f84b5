"""Unified diffs of what is on disk against what will be. A thin cover over difflib."""

from __future__ import annotations

import difflib

LINES = 4_000  # difflib is quadratic on bad days; beyond this the preview only says the sizes


def unified(name: str, old: bytes, new: bytes) -> str:
    before, after = (data.decode("utf-8", "replace").split("\n") for data in (old, new))
    if max(len(before), len(after)) > LINES:
        return f"{name}: {len(before)} lines become {len(after)}"
    return "\n".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm=""))
