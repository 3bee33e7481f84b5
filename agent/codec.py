"""Durable events to JSON and back. The journal and headless output both speak this; nothing here knows of files.

Format: one object an event, `{"event": "TurnStarted", ...fields}`. Version 1. A kind this version does not know is kept
as `UnknownEvent` and written back unchanged, so that an older program does not damage a newer journal. Beside events a
journal holds `{"record": "Prefix", ...fields}`, which is such an unknown kind to programs from before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent.events import DURABLE, DurableEvent
from agent.messages import Prefix

VERSION = 1
_KINDS: Mapping[str, type[DurableEvent]] = {kind.__name__: kind for kind in DURABLE}


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    raw: str


_PREFIX = TypeAdapter(Prefix)


@cache
def _adapter(kind: type[DurableEvent]) -> TypeAdapter[DurableEvent]:
    return TypeAdapter(kind)


def to_json(event: DurableEvent) -> dict[str, Any]:
    """Plain JSON data of one event, its kind first."""
    return {"event": type(event).__name__} | _adapter(type(event)).dump_python(event, mode="json")


def encode(event: DurableEvent | UnknownEvent) -> str:
    """One line without its newline, pure ASCII: lone surrogates and line separators survive as escapes."""
    if isinstance(event, UnknownEvent):
        return event.raw
    # pydantic refuses lone surrogates in JSON mode, so they are carried through as the replacement character
    return json.dumps(to_json(event), separators=(",", ":"))


def decode(line: str) -> DurableEvent | UnknownEvent:
    """Raises ValueError for a line that is no JSON object or lacks the fields of its kind."""
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError("not an object")
    fields: dict[str, Any] = dict(data)  # pyright: ignore[reportUnknownArgumentType]
    kind = _KINDS.get(str(fields.pop("event", "")))
    if kind is None:
        return UnknownEvent(line)
    try:
        return _adapter(kind).validate_python(fields)
    except ValidationError as error:
        raise ValueError(f"{kind.__name__}: {error.errors()[0]['msg']}") from error


def encode_prefix(prefix: Prefix) -> str:
    """One line without its newline, pure ASCII."""
    fields: dict[str, Any] = _PREFIX.dump_python(prefix, mode="json")
    return json.dumps({"record": "Prefix", **fields}, separators=(",", ":"))


def decode_prefix(line: str) -> Prefix | None:
    """None: the line is something else. Raises ValueError for one that lacks fields."""
    if not line.startswith('{"record":"Prefix"'):
        return None
    return _PREFIX.validate_python(json.loads(line))
