"""Where a text stands in another: exactly, or but for what models get wrong (line ends, blanks at line ends,
typographic signs, indentation). Only finds; what is found is named by its place in the original."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

How: TypeAlias = Literal["exact", "signs", "indentation"]
Span: TypeAlias = tuple[int, int]
TOLERANT = 2_000_000  # characters of a file that are searched tolerantly: it takes 1 s a million
BLANKS = " \t\u00a0\u2002\u2003\u2009\u202f\u3000"
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4\u0060", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys(BLANKS[1:], " "),
        "\u2026": "...",
    }
)


@dataclass(frozen=True, slots=True)
class Found:
    """`spans` in order; overlapping ones too, for then it is not certain which is meant."""

    spans: tuple[Span, ...]
    how: How = "exact"


def find_places(text: str, find: str) -> Found:
    """The strictest way that finds anything."""
    for wanted in dict.fromkeys((find, find.replace("\r\n", "\n"), _crlf(find))):
        if spans := tuple(_exact(text, wanted)):
            return Found(spans)
    if len(text) > TOLERANT:
        return Found(())
    if spans := tuple(_by_signs(text, find)):
        return Found(spans, "signs")
    return Found(tuple(_by_lines(text, find)), "indentation")


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _exact(text: str, find: str) -> Iterator[Span]:
    at = text.find(find)
    while at >= 0:
        yield at, at + len(find)
        at = text.find(find, at + 1)


# ---- signs
class _Folded:
    """A text in plain signs, each with the place it came from."""

    def __init__(self, text: str) -> None:
        signs: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        at = 0
        for line in re.split(r"(?<=\n)", text):
            content = line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line
            bare = content.rstrip(BLANKS)
            for offset, letter in enumerate(bare, at):
                for sign in unicodedata.normalize("NFD", letter.translate(_SIGNS)):
                    signs.append(sign)
                    self.starts.append(offset)
                    self.ends.append(offset + 1)
            if line.endswith("\n"):
                signs.append("\n")
                self.starts.append(at + len(content))
                self.ends.append(at + len(line))
            at += len(line)
        self.text = "".join(signs)

    def span(self, start: int, end: int) -> Span | None:
        """None where a letter would be cut in two."""
        if start and self.starts[start - 1] == self.starts[start]:
            return None
        if end < len(self.text) and (self.starts[end] == self.starts[end - 1] or unicodedata.combining(self.text[end])):
            return None
        return self.starts[start], self.ends[end - 1]


def _by_signs(text: str, find: str) -> Iterator[Span]:
    wanted = _Folded(find).text
    if not wanted.strip():
        return
    cut = find.rstrip("\r\n") == find and find.rstrip(BLANKS) != find  # then only what ends its line there is meant
    folded = _Folded(text)
    for start, end in _exact(folded.text, wanted):
        if cut and end < len(folded.text) and folded.text[end] != "\n":
            continue
        if span := folded.span(start, end):
            yield span


# ---- lines
def _by_lines(text: str, find: str) -> Iterator[Span]:
    """Whole lines that differ in indentation. Where the first line that is looked for is not indented, that of the file
    stays."""
    wanted_lines = find.replace("\r\n", "\n").split("\n")
    takes_end = len(wanted_lines) > 1 and not wanted_lines[-1].strip(BLANKS)
    if takes_end:
        wanted_lines.pop()
    wanted = [_plain(line) for line in wanted_lines]
    if not any(wanted):
        return
    rows = re.split(r"(?<=\n)", text)
    lines = [_plain(row) for row in rows]
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    indented = wanted_lines[0][:1] in BLANKS if wanted_lines[0] else False
    for n in range(len(lines) - len(wanted) + 1):
        if lines[n] == wanted[0] and lines[n : n + len(wanted)] == wanted:
            first, last = rows[n], n + len(wanted) - 1
            start = starts[n] + (0 if indented else len(first) - len(first.lstrip(BLANKS)))
            end = starts[last + 1] if takes_end else starts[last] + len(rows[last].rstrip("\r\n" + BLANKS))
            if end > start:
                yield start, end


def _plain(line: str) -> str:
    return unicodedata.normalize("NFD", line.strip("\r\n").translate(_SIGNS)).strip(" ")
