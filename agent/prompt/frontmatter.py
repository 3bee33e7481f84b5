"""YAML front matter above Markdown. Read leniently: what other programs and people wrote must load, and each oddity is
told with its line. Knows the form of such files, not what their fields mean."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import yaml

_KEY = re.compile(r"^(?P<indent> *)(?P<key>[^\s:#'\"\[{-][^:#]*?)[ \t]*:(?:[ \t]+(?P<value>.*))?$")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # every scalar stays text: `yes`, `1.0` and dates too


@dataclass(frozen=True, slots=True)
class Fault:
    """`line` counts from 1 in the file."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """`fields`: scalars are text, lists and mappings as in the file. `keys`: the line of each field. `body` has LF line
    ends and begins in `body_line`. `fenced`: there was front matter at all."""

    fields: Mapping[str, Any]
    keys: Mapping[str, int]
    body: str
    body_line: int
    fenced: bool
    faults: tuple[Fault, ...]

    def text(self, key: str) -> str:
        """The field in one line; empty where it is absent or no scalar."""
        value = self.fields.get(key)
        return " ".join(value.split()) if isinstance(value, str) else ""

    def line_of(self, key: str) -> int:
        return self.keys.get(key, 1)


def read_page(data: bytes) -> Page:
    """Never raises."""
    text, faults = _decode(data)
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != "---":
        return Page({}, {}, text.strip("\n"), 1, False, tuple(faults))
    end = next((n for n in range(start + 1, len(lines)) if lines[n].rstrip() in ("---", "...")), None)
    after = end + 1 if end is not None else _unclosed_end(lines, start + 1)
    if end is None:
        faults.append(Fault(start + 1, "the front matter has no closing line ---"))
    front = lines[start + 1 : end if end is not None else after]
    fields, more = _fields(front, start + 2)
    keys = {m["key"]: n for n, line in enumerate(front, start + 2) if (m := _KEY.match(line)) and not m["indent"]}
    while after < len(lines) and not lines[after].strip():
        after += 1
    body = "\n".join(lines[after:]).rstrip()
    return Page(fields, keys, body, after + 1, True, tuple(sorted([*faults, *more], key=lambda f: f.line)))


def _decode(data: bytes) -> tuple[str, list[Fault]]:
    faults: list[Fault] = []
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    else:
        data = data.removeprefix(codecs.BOM_UTF8)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            faults.append(Fault(line, f"byte 0x{data[error.start]:02x} is not UTF-8; it shows as \ufffd"))
            text = data.decode("utf-8", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if found := _CONTROL.search(text):
        faults.append(Fault(text.count("\n", 0, found.start()) + 1, "control characters were left out"))
        text = _CONTROL.sub("", text)
    return text, faults


def _unclosed_end(lines: list[str], start: int) -> int:
    """Where the text begins: the first line that can be no field."""
    return next((n for n in range(start, len(lines)) if not (_KEY.match(lines[n]) or lines[n].startswith(" "))), start)


def _fields(front: list[str], first: int) -> tuple[dict[str, Any], list[Fault]]:
    """As YAML; where that fails with plain values put in quotes; where that fails too, line by line."""
    try:
        return _load("\n".join(front)), []
    except _NotYaml as error:
        fault = Fault(first + error.line, f"not valid YAML ({error}); put the value in quotes")
    try:
        return _load("\n".join(_quoted(front))), [fault]
    except _NotYaml:
        found = [m for line in front if (m := _KEY.match(line)) and not m["indent"]]
        return {m["key"]: (m["value"] or "").strip(" \t'\"") for m in found}, [fault]


class _NotYaml(Exception):
    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.line = line


def _load(text: str) -> dict[str, Any]:
    try:
        found: Any = yaml.load(text, _LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _NotYaml(str(error.problem or error.context or "it breaks off"), mark.line if mark else 0) from error
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise _NotYaml(type(error).__name__, 0) from error
    if found is None or found == "":
        return {}
    if not isinstance(found, dict):
        raise _NotYaml("the front matter holds no fields", 0)
    return {str(key): value for key, value in cast("dict[Any, Any]", found).items()}


def _quoted(front: list[str]) -> list[str]:
    """Every plain value in single quotes, its further lines joined to it; blocks, quotes and whole lists stay. Tabs
    before a key go."""
    front = [line.lstrip("\t") if _KEY.match(line.lstrip("\t")) else line.replace("\t", "  ") for line in front]
    out: list[str] = []
    number = 0
    while number < len(front):
        line = front[number]
        number += 1
        found = _KEY.match(line)
        value = (found["value"] or "").strip() if found else ""
        if found is None or not value or _stands_alone(value):
            out.append(line)
            continue
        while number < len(front) and front[number].startswith(found["indent"] + " "):
            value += " " + front[number].strip()
            number += 1
        escaped = value.lstrip("'\"").replace("'", "''")  # a quote that is never closed quotes nothing
        out.append(f"{found['indent']}{found['key']}: '{escaped}'")
    return out


def _stands_alone(value: str) -> bool:
    if value[0] in "|>":
        return True
    if value[0] not in "\"'[{":
        return False
    try:
        _load(f"key: {value}")
    except _NotYaml:
        return False
    return True
