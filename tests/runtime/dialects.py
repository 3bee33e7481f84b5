"""The dialects of tests/golden/help, by name."""

from __future__ import annotations

from pathlib import Path

from agent.runtime.dialect import Dialect, read_dialect

GOLDEN = Path(__file__).parents[1] / "golden"
HELP = {
    "beellama-0.2": GOLDEN / "help" / "beellama-0.2.txt",
    "beellama-0.4": GOLDEN / "help" / "beellama-0.4.txt",
    "llama.cpp": GOLDEN / "help" / "llama.cpp-b11434.txt",
}


def dialect(name: str) -> Dialect:
    return read_dialect(f"version: {name}\n", HELP[name].read_text(encoding="utf-8"))
