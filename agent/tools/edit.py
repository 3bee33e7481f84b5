"""The edit tool: text for text, in what is on disk now. What is looked for may differ a little from the file; what is
put in is literal, and every byte outside the place stays."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable

from pydantic import ConfigDict

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.diff import unified
from agent.tools.finding import Found, Span, find_places
from agent.tools.limits import plain, short_line
from agent.tools.seen import Place, Seen
from agent.workspace.encoding import Text
from agent.workspace.files import Content
from agent.workspace.paths import Workspace

COMPARED = 5000  # lines looked at for the nearest ones; difflib needs some 0.1 ms for each
WIDTH = 300  # characters of a line that are compared
AROUND = 5  # lines shown of the nearest place


class EditParams(Params):
    model_config = ConfigDict(extra="forbid")  # `line` or `regex` would mean another change than the one made

    file: str
    find: str
    replace: str
    replace_all: bool = False


class Edit:
    """`hides`: of which files nothing may be shown to the model."""

    name = "edit"
    params = EditParams

    def __init__(self, workspace: Workspace, seen: Seen, hides: Callable[[str], bool]) -> None:
        self.description = description_of("edit")
        self._workspace = workspace
        self._seen = seen
        self._hides = hides

    def plan(self, params: EditParams) -> Plan:
        place = Place.of(self._workspace, params.file)
        there = place.content()
        if there is None:
            gone = "was deleted since you saw it" if self._seen.knew(place) else "does not exist"
            raise ToolFailure(f"{place.name} {gone}. Use write to make a new file.")
        secret = place.outside or self._hides(str(place.path)) or self._hides(str(place.named))
        data, _ = replaced(there, params, place.name, secret=secret)
        return place.edit_plan(unified(place.name, there.data, data), there, place.access("read"))

    async def run(self, params: EditParams, ctx: ToolContext) -> ToolOutput:
        place = Place.of(self._workspace, params.file)
        there = place.as_planned(ctx.plan)
        if there is None:
            raise ToolFailure(f"{place.name} is no longer there.")
        data, note = replaced(there, params, place.name)
        display = self._seen.save(place, data, there, ctx.turn)
        return ToolOutput(f"Edited {place.name}{note}", display)


def replaced(there: Content, params: EditParams, name: str, *, secret: bool = False) -> tuple[bytes, str]:
    """The new bytes, and what to say of them. Raises ToolFailure unless the place is certain; `secret`: without a word
    of what the file holds."""
    find, replace, text = params.find.removeprefix("\ufeff"), params.replace, there.text
    if text is None:
        raise ToolFailure(f"{name} is binary, not text, and cannot be edited.")
    if not there.data:
        raise ToolFailure(f"{name} is empty: there is nothing to find. Use write to fill it.")
    if not find:
        raise ToolFailure("find is empty. Give the exact text to replace, or use write for a new file.")
    if find == replace:
        raise ToolFailure("find and replace are the same: there is nothing to change.")
    found = find_places(text.text, find)
    if not found.spans:
        near = "" if secret else f" {_nearest(there.lines, find)}"
        raise ToolFailure(f"The text to find was not found in {name}; nothing was changed.{near}")
    if len(found.spans) > 1 and not params.replace_all:
        raise ToolFailure(
            f"The text to find occurs {len(found.spans)} times in {name}, on lines {_lines_of(text, found)}. "
            "Add lines around it, or set replace_all."
        )
    spans = _apart(found.spans)
    try:
        data = text.spliced(spans, lambda start, end: _with_line_ends(text, replace, start, end))
    except UnicodeEncodeError as error:
        sign = error.object[error.start]
        raise ToolFailure(
            f"{name} is written in {text.encoding}, which has no {sign!r} (U+{ord(sign):04X}). Nothing was changed."
        ) from error
    if data == there.data:
        raise ToolFailure(f"{name} already reads so: there is nothing to change.")
    return data, _note(text, found, spans)


def _with_line_ends(text: Text, replace: str, start: int, end: int) -> str:
    """The model reads lines without their carriage returns, so it writes without them; the file keeps its own."""
    if "\r" in replace or "\n" not in replace:
        return replace
    crlf = "\r\n" in text.text[start:end] if "\n" in text.text[start:end] else text.newline == "\r\n"
    return replace.replace("\n", "\r\n") if crlf else replace


def _apart(spans: tuple[Span, ...]) -> list[Span]:
    kept: list[Span] = []
    for span in spans:
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


def _lines_of(text: Text, found: Found) -> str:
    lines = ", ".join(dict.fromkeys(str(text.text.count("\n", 0, start) + 1) for start, _ in found.spans[:10]))
    return f"{lines} and more" if len(found.spans) > 10 else lines


def _note(text: Text, found: Found, spans: list[Span]) -> str:
    places = f" at {len(spans)} places" if len(spans) > 1 else ""
    if found.how == "signs":
        return f"{places}; blanks or typographic signs of find differed from the file."
    if found.how == "indentation":
        line = text.text.count("\n", 0, spans[0][0]) + 1
        return f"{places}; find was indented differently, and replace went in as you wrote it: look at line {line}."
    return f"{places}."


def _nearest(lines: list[str], find: str) -> str:
    """The place that is most like the first line of `find` that the file has nowhere, with its line numbers."""
    known = set(lines)
    wanted = [line for line in find.replace("\r\n", "\n").split("\n") if line.strip()] or [find]
    at, missing = next(((n, line) for n, line in enumerate(wanted) if line not in known), (0, wanted[0]))
    close = difflib.get_close_matches(missing[:WIDTH], [line[:WIDTH] for line in lines[:COMPARED]], n=1, cutoff=0.5)
    if not close:
        return "Read the file again and copy the text exactly."
    number = next(n for n, line in enumerate(lines) if line[:WIDTH] == close[0])
    odd = sorted({c for c in close[0] if ord(c) > 126 or c == "\t"} - set(missing))[:6]
    names = ", ".join(f"U+{ord(c):04X} {unicodedata.name(c, 'control').lower()}" for c in odd)
    first = max(0, number - min(at, AROUND - 1))
    rows = [f"{n:>5}\t{plain(short_line(line))}" for n, line in enumerate(lines[first : number + AROUND], first + 1)]
    rows = rows[: max(number - first + 1, min(len(wanted), AROUND))]
    signs = f" (with {names})" if odd else ""
    where = f"line is {number + 1}" if len(rows) == 1 else f"lines are {first + 1} to {first + len(rows)}"
    return "\n".join([f"The nearest {where}{signs}:", *rows, "Copy the text exactly."])
