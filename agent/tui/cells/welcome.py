"""What stands above a conversation that has not begun."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip

from agent.tui import theme
from agent.tui.cells.paper import BLANK, clean


def welcome_strips(title: str, folder: str) -> list[Strip]:
    return [
        BLANK,
        Strip([Segment("▸ ", theme.accent_bold), Segment(clean(title), theme.bold)]),
        Strip([Segment("  "), Segment(clean(folder), theme.quiet)]),
        Strip([Segment("  "), Segment("/help for keys and commands", theme.faint)]),
        BLANK,
    ]
