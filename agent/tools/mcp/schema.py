"""Schemas in the plainest form, for engines that refuse the original: they turn all schemas of a request into one
grammar, so that a single unusual one would make every request fail. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent.config.foreign import mapping

DEEPEST = 5  # levels of references that are written out; a schema may refer to itself
LARGEST = 1_000  # above this a bound makes a grammar that is refused or endless
KEPT = frozenset(
    ("type", "description", "enum", "const", "properties", "required", "items", "anyOf", "oneOf", "title", "default")
)
BOUNDS = frozenset(("minItems", "maxItems", "minimum", "maximum"))


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Says less than the original and never something else: what it allows includes all that the original allows."""
    plain = _plain(schema, schema, 0)
    plain.pop("anyOf", None)
    plain.pop("oneOf", None)
    return plain | {"type": "object", "properties": plain.get("properties", {})}


def is_endless(schema: Any) -> bool:
    """Would an engine never be done with it? llama-server (b11434) makes a grammar without an end of a text that must
    be longer than it may be."""
    if isinstance(schema, dict):
        given = cast("dict[str, Any]", schema)
        least, most = given.get("minLength"), given.get("maxLength")
        contrary = isinstance(least, int | float) and isinstance(most, int | float) and least > most
        return contrary or any(map(is_endless, given.values()))
    return isinstance(schema, list) and any(map(is_endless, cast("list[Any]", schema)))


def _plain(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if isinstance(reference := schema.get("$ref"), str):
        target = _target(reference, root)
        if target is None or depth >= DEEPEST:
            return {k: v for k, v in schema.items() if k == "description"}
        return _plain({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, root, depth + 1)
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            fields = mapping(value)
            out[key] = {name: _plain(mapping(field), root, depth + 1) for name, field in fields.items()}
        elif key == "items":
            out[key] = _plain(mapping(value), root, depth + 1)
        elif key in ("anyOf", "oneOf"):
            branches = [_plain(mapping(b), root, depth + 1) for b in _list(value)]
            if all(_is_whole(b) for b in branches):
                out |= branches[0] if len(branches) == 1 else {"anyOf": branches}
        elif key in KEPT or (key in BOUNDS and isinstance(value, int | float) and abs(value) <= LARGEST):
            out[key] = value
    return out


def _target(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not reference.startswith("#"):
        return None
    place: Any = root
    for part in [p for p in reference.lstrip("#").split("/") if p]:
        place = mapping(place).get(part.replace("~1", "/").replace("~0", "~"))
    return mapping(place) if place is not None else None


def _is_whole(branch: Mapping[str, Any]) -> bool:
    """Does it describe a value, and not only which fields go together?"""
    return bool({"type", "enum", "const", "anyOf"} & set(branch))


def _list(value: Any) -> Sequence[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
