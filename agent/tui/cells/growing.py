"""A call while the model writes it: what it is about and the newest lines of what it holds, from arguments that are
not complete yet. Pure; a drawing costs one pass of a native reader over the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agent.tui import theme
from agent.tui.cells.paper import clean, framed, one_line

SUBJECTS = ("file", "path", "command", "pattern", "url", "query", "name")  # fields that say what a call is about
SHOWN = 6  # lines: enough to see where it is, few enough not to push the conversation away
UNFOLDED = 30
LINE = 2000  # characters of one line that are looked at
# what an edit takes out and puts in
MARKS: Mapping[str, tuple[str, Style]] = {"find": ("- ", theme.removed), "replace": ("+ ", theme.added)}


@dataclass(frozen=True, slots=True)
class Growing:
    """`field`: the one that holds `lines`, the newest ones, of `count` in all."""

    subject: str = ""
    field: str = ""
    lines: tuple[str, ...] = ()
    count: int = 0


def read_growing(raw: str, most: int = SHOWN) -> Growing:
    """Nothing where nothing can be read yet."""
    try:
        fields: Any = from_json(raw, allow_partial="trailing-strings") if raw else None
    except ValueError:
        return Growing()
    if not isinstance(fields, dict):
        return Growing()
    texts = {k: v for k, v in cast("dict[str, Any]", fields).items() if isinstance(v, str)}
    subject = next((k for k in SUBJECTS if k in texts), next(iter(texts), ""))
    body = next(reversed(texts), "")
    if body == subject and "\n" not in texts.get(body, ""):
        body = ""
    if not body:
        return Growing(texts.get(subject, ""))
    text = texts[body]
    newest = text[-LINE * most :].removesuffix("\n").split("\n")[-most:]
    count = text.count("\n") + (not text.endswith("\n") and bool(text))
    return Growing("" if body == subject else texts.get(subject, ""), body, tuple(newest), count)


def growing_strips(name: str, raw: str, head: Segment, word: str, width: int, unfolded: bool) -> list[Strip]:
    """`head`: the mark of the state; `word`: what it is called."""
    call = read_growing(raw, UNFOLDED if unfolded else SHOWN)
    size = f"{call.count:,} line{'s' if call.count != 1 else ''}" if call.field else ""
    if not (size or call.subject) and raw:
        size = f"{len(raw):,} characters"
    aside = " · ".join(x for x in (word, size) if x)
    title = [head, Segment(name, theme.bold)]
    room = width - Strip(title).cell_length - len(aside) - 4
    tail = Segment(f"  {aside}", theme.faint)
    if call.subject and room < min(len(call.subject), 12):  # narrow: what it is about is worth the whole row
        subject = _named(call.subject, max(4, room + len(aside) + 2))
        strips = [Strip([*title, Segment(f"  {subject}", theme.ink)]), Strip([tail])]
    else:
        subject = _named(call.subject, room) if call.subject else ""
        strips = [Strip([*title, *([Segment(f"  {subject}", theme.ink)] if subject else []), tail])]
    return strips + _body(call, width)


def _named(subject: str, room: int) -> str:
    """Of a path that is too long, its end says more than its beginning."""
    folders, slash, last = subject.rpartition("/")
    if slash and " " not in subject and len(folders) > 1 and len(subject) > room:
        subject = f"…/{last}"
    return one_line(subject, room)


def _body(call: Growing, width: int) -> list[Strip]:
    bar = Segment("  │ ", theme.line)
    mark, style = MARKS.get(call.field, ("", theme.quiet))
    first = call.count - len(call.lines) + 1
    digits = 0 if mark else len(f"{call.count}")
    room = max(4, width - 4 - (digits + 2 if digits else len(mark)))
    rows: list[list[Segment]] = []
    for number, line in enumerate(call.lines, first):
        shown = _cut(clean(line[:LINE]), room)
        lead = Segment(f"{number:>{digits}}  ", theme.faint) if digits else Segment(mark, style)
        rows.append([lead, Segment(shown, style)])
    return framed(rows, bar, bar)


def _cut(line: str, room: int) -> str:
    """One row a line: blanks in front are kept, and what is too long ends in an ellipsis."""
    blanks = line[: len(line) - len(line.lstrip())][:room]
    return blanks + one_line(line, max(1, room - len(blanks))) if line.strip() else ""
