"""What the built-in tools share: lenient parameters, and the description in a .md file beside each."""

from __future__ import annotations

from importlib import resources
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, model_validator


class Params(BaseModel):
    """Local models add fields, write numbers as text and null for what they leave out; all are let through. Fields are
    flat scalars in alphabetical order, since Gemma renders arguments sorted."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = cast("dict[str, Any]", values)
        return {name: value for name, value in given.items() if value is not None}

    @model_validator(mode="after")
    def _is_text(self) -> Params:
        for name, value in self:
            if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
                raise ValueError(f"{name} holds half of a character (a lone surrogate, \\ud800 to \\udfff)")
        return self


def lines_of(value: Any) -> Any:
    """One text with a line for each of what some models send as a list, of texts or of objects that hold one."""
    if not isinstance(value, list):
        return value
    return "\n".join(_line(item) for item in cast("list[Any]", value))


def _line(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    fields = cast("dict[str, Any]", item)
    words = next((v for k, v in fields.items() if k not in ("status", "id") and isinstance(v, str)), "")
    state = str(fields.get("status", ""))
    return (
        f"[{'x' if state in ('done', 'completed') else '>' if 'progress' in state else ' '}] {words}"
        if state
        else words
    )


def description_of(name: str) -> str:
    return (resources.files("agent") / "tools" / f"{name}.md").read_text(encoding="utf-8").strip()
