"""The system prompt: built once a session from bytes that do not change, so that the server's prompt cache holds. No
clock, no git status, no directory listing."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def build_system_prompt(folder: Path, *parts: str) -> str:
    """`parts` follow as they are; empty ones are left out."""
    text = (resources.files("agent") / "prompt" / "templates" / "system.md").read_text(encoding="utf-8")
    prompt = text.replace("{folder}", str(folder).encode("utf-8", "replace").decode()).strip()
    return "\n\n".join([prompt, *(p for p in parts if p)])
