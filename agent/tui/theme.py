"""Colours and marks, one place. All styles are plain rich styles; with NO_COLOR the marks alone carry the meaning."""

from __future__ import annotations

from typing import Final

ACCENT: Final = "#7aa2f7"
TEXT: Final = "#c8d0e0"
DIM: Final = "#7a8499"
FAINT: Final = "#4a5266"
GOOD: Final = "#8fc98f"
BAD: Final = "#e87a7a"
WARN: Final = "#e0b060"
ADDED: Final = "#8fc98f"
REMOVED: Final = "#e08a8a"
BACKGROUND: Final = "#14171f"
PANEL: Final = "#1b1f2a"

MARKS: Final = {"writing": "◌", "planned": "○", "asking": "?", "running": "◐", "ok": "●", "failed": "✕"}
MARK_STYLES: Final = {
    "writing": DIM,
    "planned": DIM,
    "asking": f"bold {WARN}",
    "running": ACCENT,
    "ok": GOOD,
    "failed": BAD,
}
NOTE_STYLES: Final = {"info": DIM, "warning": WARN, "error": BAD}
CODE_THEME: Final = "nord-darker"
