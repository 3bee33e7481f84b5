"""AGENTS.md: what the user and the project want the agent to know. Text only: it can allow nothing."""

from __future__ import annotations

from pathlib import Path

NAMES = ("AGENTS.md", "CLAUDE.md")  # the first that is there, in each folder
LIMIT = 8192  # bytes in all: a local context is small, and this part is read before every first word


def read_instructions(folder: Path, config: Path) -> str:
    """The user's own file, then those from the repository's root down to `folder`; empty when there are none."""
    chain = [folder, *folder.parents]
    root = next((n for n, parent in enumerate(chain) if (parent / ".git").exists()), 0)
    parts: list[str] = []
    left = LIMIT
    for place in (config, *reversed(chain[: root + 1])):
        file = next((place / n for n in NAMES if (place / n).is_file()), None)
        text = _read(file) if file else ""
        if not text or file is None:
            continue
        cut = text.encode("utf-8")[:left].decode("utf-8", "ignore")
        left -= len(cut.encode("utf-8"))
        note = "" if cut == text else f"\n[cut: {file.name} is longer than {LIMIT} bytes]"
        parts.append(f"# Instructions from {file}\n\n{cut}{note}")
        if left <= 0:
            break
    return "\n\n".join(parts)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig", errors="replace").strip()
    except OSError:
        return ""
