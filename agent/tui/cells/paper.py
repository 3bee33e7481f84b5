"""What every cell is drawn with: foreign text made harmless, wrapping by terminal cells, strips from Rich. Knows
nothing of events or widgets."""

from __future__ import annotations

import io
import re
from functools import lru_cache

from rich.cells import cell_len, chop_cells
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from agent.tui import theme

_ANSI = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|[P_^X][^\x1b]*(?:\x1b\\)?|\[[0-?]*[ -/]*[@-~]?|[ -/]*[0-~]?)"
)
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]"
)
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad\U000e0000-\U000e007f]")
_JOINED = re.compile("(?<=[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])[\u200d\ufe0f]+")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")


def clean(text: str) -> str:
    """Text of strangers, fit for the screen: no escape sequences, no control or direction characters, tabs as spaces,
    emoji sequences taken apart so that every terminal agrees about their width."""
    if text.isascii() and text.isprintable():
        return text
    text = _ANSI.sub("", text) if "\x1b" in text else text
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")
    if "\t" in text:
        text = text.expandtabs(4)
    if not text.isascii():
        text = _INVISIBLE.sub("", _JOINED.sub("", text))
    return _CONTROL.sub("\ufffd", text)


def one_line(text: str, width: int) -> str:
    """The first line, cut to `width` cells with an ellipsis."""
    first, newline, _ = clean(text[: 8 * width + 200]).strip().partition("\n")
    if cell_len(first) > width:
        return chop_cells(first, max(1, width - 1))[0] + "…" if width > 1 else ""
    return f"{first} …" if newline and cell_len(first) + 2 <= width else first


@lru_cache(maxsize=4)
def console(width: int) -> Console:
    return Console(
        width=max(1, width),
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        theme=Theme(theme.MARKDOWN_STYLES),
    )


def rich_rows(renderable: RenderableType, width: int) -> list[list[Segment]]:
    paper = console(width)
    return paper.render_lines(renderable, paper.options, pad=False)


def prose(text: str, width: int, style: Style) -> list[list[Segment]]:
    """Wrapped at words; `text` must be clean."""
    rows: list[list[Segment]] = []
    for part in text.split("\n"):
        for row in Text(part, style=style, end="").wrap(console(width), max(1, width)):
            rows.append([Segment(row.plain.rstrip(), style)])
    return rows


def verbatim(text: str, width: int, style: Style, most: int | None = None) -> tuple[list[list[Segment]], int]:
    """Wrapped at cells, every blank kept; `text` must be clean. At most `most` rows; also the lines left out."""
    rows: list[list[Segment]] = []
    lines = text.split("\n")
    for number, part in enumerate(lines):
        if most is not None and len(rows) >= most:
            return rows, len(lines) - number
        if most is not None:
            part = part[: width * most]
        for row in chop_cells(part, max(1, width)) or [""]:
            rows.append([Segment(row, style)])
    if most is not None and len(rows) > most:
        return rows[:most], 1
    return rows, 0


def framed(rows: list[list[Segment]], first: Segment, rest: Segment) -> list[Strip]:
    """Rows with a mark before the first and another before the others."""
    return [Strip([first if n == 0 else rest, *row]) for n, row in enumerate(rows)]


BLANK = Strip([])
