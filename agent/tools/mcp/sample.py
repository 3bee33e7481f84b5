"""Arguments that fit a schema, to try a tool with. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent.config.foreign import first, mapping

DEEPEST = 6  # levels; a schema may refer to itself
FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
}
ZONE = "Europe/Berlin"


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What is required, and no more."""
    value = _value(schema, schema, "", 0)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], name: str, depth: int) -> Any:
    schema = _resolved(schema, root)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if branch := first(schema.get(key)):
            return _value({**branch, **{k: v for k, v in schema.items() if k != key}}, root, name, depth + 1)
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in cast("list[Any]", kind) if k != "null"), "null")
    if depth > DEEPEST:
        return None
    match kind:
        case "object":
            fields, wanted = mapping(schema.get("properties")), schema.get("required")
            names = [str(n) for n in cast("list[Any]", wanted)] if isinstance(wanted, list) else []
            return {n: _value(mapping(fields.get(n)), root, n, depth + 1) for n in names}
        case "array":
            least = schema.get("minItems")
            count = least if isinstance(least, int) else 0
            return [_value(mapping(schema.get("items")), root, name, depth + 1) for _ in range(min(count, 5))]
        case "integer" | "number":
            return _number(schema, whole=kind == "integer")
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return _text(schema, name)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#"):
        return schema
    place: Any = root
    for part in reference.lstrip("#/").split("/"):
        place = mapping(place).get(part)
    return mapping(place)


def _number(schema: Mapping[str, Any], *, whole: bool) -> float:
    least, most = schema.get("minimum"), schema.get("maximum")
    value = 1.0
    if isinstance(least, int | float):
        value = max(value, float(least))
    if isinstance(schema.get("exclusiveMinimum"), int | float):
        value = max(value, float(schema["exclusiveMinimum"]) + 1)
    if isinstance(most, int | float):
        value = min(value, float(most))
    return int(value) if whole else value


def _text(schema: Mapping[str, Any], name: str) -> str:
    """By format, else by what the name says."""
    known = FORMATS.get(str(schema.get("format")))
    lower = name.lower()
    if known is None:
        if "timezone" in lower:
            known = ZONE
        elif "path" in lower or lower in ("dir", "directory", "folder"):
            known = "."
        elif "url" in lower or lower == "uri":
            known = FORMATS["uri"]
        elif lower == "time" or lower.endswith("_time"):
            known = "12:00"
        elif lower == "date" or lower.endswith("_date"):
            known = FORMATS["date"]
        else:
            known = "test"
    least = schema.get("minLength")
    return known.ljust(least, "x") if isinstance(least, int) and least < 1000 else known
