"""From text to strips. What comes from outside is plain text here: never markup, never an escape sequence."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

TAB = 4

# Control characters become visible signs; marks that reorder text on screen become a dot.
_UNSAFE = {
    **{code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)},
    0x7F: 0x2421,
    **{code: 0xB7 for code in range(0x80, 0xA0)},
    **dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF], 0xB7),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
}


def safe(text: str) -> str:
    return text.replace("\r\n", "\n").expandtabs(TAB).translate(_UNSAFE)


def console_for(width: int) -> Console:
    return Console(
        file=io.StringIO(),
        width=max(4, width),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )


def strips(renderable: RenderableType, width: int, indent: int = 0) -> list[Strip]:
    """`indent` blank cells in front of each line, within `width`."""
    console = console_for(width - indent)
    lines = console.render_lines(renderable, console.options, pad=False)
    return [Strip(_pad(line, indent)) for line in lines]


def _pad(line: Iterable[Segment], indent: int) -> list[Segment]:
    segments = [s for s in line if not s.control]
    return [Segment(" " * indent), *segments] if indent else segments


def wrapped(text: str, width: int, style: str, lead: str = "", lead_style: str = "") -> list[Strip]:
    """Plain text, folded at the width; `lead` stands in front of every line."""
    from_lead = Segment(lead, Style.parse(lead_style)) if lead else None
    room = max(4, width - len(lead))
    body = Text(safe(text), style=style, overflow="fold", no_wrap=False)
    console = console_for(room)
    out: list[Strip] = []
    for line in body.wrap(console, room, tab_size=TAB):
        segments = [s for s in line.render(console) if s.text != "\n"]
        out.append(Strip([from_lead, *segments] if from_lead else segments))
    return out or [Strip([from_lead] if from_lead else [])]


def one_line(text: str, width: int) -> str:
    """The first line, cut with an ellipsis to `width` cells."""
    shown = Text(safe(text.strip().split("\n", 1)[0]))
    shown.truncate(max(1, width), overflow="ellipsis")
    return shown.plain
