"""Questions to the user that are no permission of a call: choices, or a form of several fields. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class FormField:
    """One thing that a form asks for. `options`: (value, words) of a choice; `choices` takes several of them, `value`
    is then a tuple. Limits are of the number, or of the length of a text."""

    name: str
    title: str
    kind: Literal["text", "number", "integer", "boolean", "choice", "choices"] = "text"
    about: str = ""
    value: str | float | bool | tuple[str, ...] | None = None
    required: bool = False
    options: tuple[tuple[str, str], ...] = ()
    least: float | None = None
    most: float | None = None
    format: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """Something that is no permission of a call but wants the user's word. `choices`: (value, words); Enter takes
    the one at `default`, Esc means the last; with `fields` the first one sends the form."""

    title: str
    text: str
    choices: tuple[tuple[str, str], ...]
    fields: tuple[FormField, ...] = ()
    default: int = 0


@dataclass(frozen=True, slots=True)
class FormAsked:
    request_id: str
    form: Form


@dataclass(frozen=True, slots=True)
class FormSettled:
    request_id: str
