"""Mends the small faults models make in a call's arguments. Pure; what is beyond mending is never guessed."""

from __future__ import annotations

import json
from typing import Any

GEMMA_QUOTE = '<|"|>'  # Gemma 4's string mark; a model that quotes its keys leaves it in them


def repair_arguments(raw: str) -> str | None:
    """JSON text of an object, or None. Nothing at all and `null` mean "no arguments"; an object inside a JSON string is
    taken out; marks around keys are dropped; anything that already is an object stays byte for byte."""
    if not raw.strip():
        return "{}"
    try:
        value: Any = json.loads(raw)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = json.loads(value)
            raw = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        return None
    fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    if any(GEMMA_QUOTE in key for key in fields):
        return json.dumps({key.replace(GEMMA_QUOTE, ""): v for key, v in fields.items()}, ensure_ascii=False)
    return raw
