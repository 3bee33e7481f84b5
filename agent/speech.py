"""One line for a person at stderr, whoever said it first and whether or not anyone can read it."""

from __future__ import annotations

import contextlib
import os


def harmless(text: str) -> str:
    """What an engine's log or a server says may hold control characters; a terminal would obey them."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def tell(text: str) -> None:
    """A closed or full stderr loses the line, never the work; nothing is left to be flushed at the end."""
    with contextlib.suppress(OSError):
        os.write(2, f"{harmless(text)}\n".encode("utf-8", "replace"))
