"""Tables and bars as rows of text for any width. Pure; what does not fit is left out by its rank, never wrapped."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from agent.commands.base import Level, Line, Said, Tone

GAP = 2  # cells between two columns
TEXT_LEAST, TEXT_MOST = 12, 48  # cells of a column of text: less is worth nothing, more pulls the numbers apart
_HEAD = re.compile(r"\s*\S.*?\s{2,}(?=\S)")
SHADES = "█▓▒░▚▞▪▫"  # the parts of a bar are told apart without colour


@dataclass(frozen=True, slots=True)
class Column:
    """`rank`: where there is no room the columns with the highest go first; 0 stays. `text`: on the left, in the room
    that the others leave."""

    title: str
    rank: int
    text: bool = False
    tone: Tone = ""


def cells(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, width: int) -> str:
    """One line of at most so many cells, with an ellipsis where it was cut."""
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[:-1]
    return f"{text.rstrip()}…" if width > 0 else ""


def hanging(text: str, width: int) -> list[Line]:
    """Rows of a name, two blanks and what is said of it: what does not fit goes on below the words, not below the
    name. Rows without such a gap are wrapped as they are."""
    lines: list[Line] = []
    for line in text.split("\n"):
        head = _HEAD.match(line)
        indent = min(head.end() if head else 0, width // 2)
        pieces = textwrap.wrap(
            line[indent:],
            max(1, width - indent),
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
        first, *rest = pieces or [""]
        lines += [row(line[:indent] + first), *(row(" " * indent + piece) for piece in rest)]
    return lines


def listed(text: str, level: Level = "info") -> Said:
    """Such rows as an answer."""
    return Said(text, level, lambda width: hanging(text, width))


def row(text: str, tone: Tone = "") -> Line:
    return ((text, tone),)


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, total: bool = False) -> list[Line]:
    """A header and the rows. Columns that are empty throughout are left out. `total`: the last row is their sum."""
    shown = [n for n in range(len(columns)) if any(row[n] for row in rows) or not columns[n].rank]
    sizes = {n: max(cells(columns[n].title), *(cells(row[n]) for row in rows)) for n in shown} if rows else {}
    while len(shown) > 1 and _least(columns, shown, sizes) > width:
        last = max(columns[n].rank for n in shown)
        if not last:
            break
        shown = [n for n in shown if columns[n].rank < last]
    room = width - _least(columns, shown, sizes)
    for n in shown:
        if columns[n].text:
            least = min(sizes[n], TEXT_LEAST)
            sizes[n] = min(sizes[n], least + max(0, room), TEXT_MOST)
    lines = [_row(columns, [c.title for c in columns], shown, sizes, "faint")]
    for number, row in enumerate(rows):
        last = total and number == len(rows) - 1
        if last:
            lines.append((("─" * min(width, sum(sizes[n] for n in shown) + GAP * (len(shown) - 1)), "faint"),))
        lines.append(_row(columns, row, shown, sizes, "bold" if last else ""))
    return lines


def _least(columns: Sequence[Column], shown: Sequence[int], sizes: dict[int, int]) -> int:
    """Cells of a row whose text columns are as narrow as they may be."""
    need = sum(min(sizes[n], TEXT_LEAST) if columns[n].text else sizes[n] for n in shown)
    return need + GAP * (len(shown) - 1)


def _row(
    columns: Sequence[Column], row: Sequence[str], shown: Sequence[int], sizes: dict[int, int], tone: Tone
) -> Line:
    pieces: list[tuple[str, Tone]] = []
    for place, n in enumerate(shown):
        text = fit(row[n], sizes[n])
        blank = " " * (sizes[n] - cells(text))
        gap = " " * GAP if place else ""
        pieces.append((gap + (text + blank if columns[n].text else blank + text), tone or columns[n].tone))
    return tuple(pieces)


def bar(parts: Sequence[float], width: int, tones: Sequence[Tone] = ()) -> Line:
    """One row of `width` cells shared out among the parts; a part above 0 has a cell at least while there are any."""
    whole = sum(parts)
    if whole <= 0 or width <= 0:
        return ()
    pieces: list[tuple[str, Tone]] = []
    left, rest = width, whole
    for number, part in enumerate(parts):
        size = min(left, max(1, round(left * part / rest))) if part > 0 and rest > 0 else 0
        left, rest = left - size, rest - part
        if size:
            tone: Tone = tones[number] if number < len(tones) else ""
            pieces.append((SHADES[number % len(SHADES)] * size, tone))
    return tuple(pieces)


def legend(entries: Sequence[tuple[str, str]], width: int, tones: Sequence[Tone] = ()) -> list[Line]:
    """`█ name value` for each part of a bar, as many in a row as fit."""
    lines: list[Line] = []
    row: list[tuple[str, Tone]] = []
    used = 0
    for number, (name, value) in enumerate(entries):
        words = f" {name} {value}"
        need = 1 + cells(words) + (GAP if row else 0)
        if row and used + need > width:
            lines.append(tuple(row))
            row, used = [], 0
            need -= GAP
        elif row:
            row.append((" " * GAP, ""))
        tone: Tone = tones[number] if number < len(tones) else ""
        row.extend(((SHADES[number % len(SHADES)], tone), (words, "")))
        used += need
    return [*lines, tuple(row)] if row else lines
