"""The fields of a question while they are filled in. Pure: keys and text in, values and faults out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import TypeAlias
from urllib.parse import urlsplit

from agent.forms import FormField

Value: TypeAlias = str | float | bool | list[str]
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


class Filling:
    """`at`: the field that takes the keys. `texts`: what stands in each; a yes-or-no field holds "yes", "no" or ""."""

    def __init__(self, fields: Sequence[FormField]) -> None:
        self.fields = tuple(fields)
        self.at = 0
        self.texts = [_text(field) for field in self.fields]
        self.taken = [set(field.value) if isinstance(field.value, tuple) else set[str]() for field in self.fields]
        self.option = [0 for _ in self.fields]  # where the mark stands in a field of several choices

    @property
    def field(self) -> FormField:
        return self.fields[self.at]

    def move(self, step: int) -> None:
        self.at = (self.at + step) % len(self.fields)

    def write(self, text: str) -> None:
        if self.field.kind in ("text", "number", "integer"):
            self.texts[self.at] += text
        elif text == " ":
            self.turn(1)

    def erase(self) -> None:
        if self.field.kind in ("text", "number", "integer"):
            self.texts[self.at] = self.texts[self.at][:-1]

    def turn(self, step: int) -> None:
        """The next choice; in a field of several choices the mark moves, and `toggle` takes."""
        match self.field.kind:
            case "boolean":
                self.texts[self.at] = "no" if self.texts[self.at] == "yes" else "yes"
            case "choice":
                values = [value for value, _ in self.field.options]
                now = self.texts[self.at]
                place = values.index(now) + step if now in values else 0
                self.texts[self.at] = values[place % len(values)]
            case "choices":
                self.option[self.at] = (self.option[self.at] + step) % len(self.field.options)
            case _:
                pass

    def toggle(self) -> None:
        if self.field.kind == "choices":
            value = self.field.options[self.option[self.at]][0]
            self.taken[self.at] ^= {value}
        else:
            self.write(" ")

    def faults(self) -> Mapping[int, str]:
        """What is wrong, by field."""
        found = {n: self._fault(n) for n in range(len(self.fields))}
        return {n: fault for n, fault in found.items() if fault}

    def values(self) -> dict[str, Value]:
        """Of a form without faults; an empty field is not in it."""
        out: dict[str, Value] = {}
        for n, field in enumerate(self.fields):
            text = self.texts[n]
            if field.kind == "choices":
                if self.taken[n] or field.required:
                    out[field.name] = [v for v, _ in field.options if v in self.taken[n]]
            elif (text == "" and field.kind != "text") or (text == "" and not field.required):
                continue
            else:
                out[field.name] = _value(field, text)
        return out

    def _fault(self, n: int) -> str:
        field, text = self.fields[n], self.texts[n]
        if field.kind == "choices":
            return _limits(field, len(self.taken[n]), "choices") if self.taken[n] or field.required else ""
        if text == "":
            return "needed" if field.required else ""
        if field.kind in ("integer", "number"):
            try:
                number = int(text) if field.kind == "integer" else float(text)
            except ValueError:
                return "not a whole number" if field.kind == "integer" else "not a number"
            return _limits(field, number, "")
        if field.kind == "text":
            return _limits(field, len(text), "characters") or _format(field.format, text)
        return ""


def _text(field: FormField) -> str:
    if field.kind == "boolean":
        return "" if field.value is None else "yes" if field.value else "no"
    if isinstance(field.value, tuple) or field.value is None:
        return ""
    return f"{field.value:g}" if isinstance(field.value, float) else str(field.value)


def _value(field: FormField, text: str) -> Value:
    match field.kind:
        case "boolean":
            return text == "yes"
        case "integer":
            return int(text)
        case "number":
            return float(text)
        case _:
            return text


def _limits(field: FormField, size: float, unit: str) -> str:
    if field.least is not None and size < field.least:
        return f"at least {field.least:g} {unit}".strip()
    if field.most is not None and size > field.most:
        return f"at most {field.most:g} {unit}".strip()
    return ""


def _format(kind: str, text: str) -> str:
    try:
        match kind:
            case "email":
                return "" if _EMAIL.fullmatch(text) else "not an e-mail address"
            case "uri":
                return "" if urlsplit(text).scheme else "not a URI"
            case "date":
                date.fromisoformat(text)
            case "date-time":
                datetime.fromisoformat(text)
            case _:
                pass
    except ValueError:
        return "not a date (2026-01-31)" if kind == "date" else "not a date and time (2026-01-31T12:00:00Z)"
    return ""
