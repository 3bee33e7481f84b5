"""Arguments made to fit a tool's JSON schema, where it is certain what was meant; and the words for what does not fit.
Pure; knows no tool by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

Schema = Mapping[str, Any]

# What other agents call the fields of their tools: models were trained on those. Looked at only for a required field
# that is missing.
ALSO_CALLED: Mapping[str, tuple[str, ...]] = {
    "command": ("cmd", "shell_command"),
    "file": ("file_path", "path", "filepath", "filename", "file_name", "target_file"),
    "find": ("old_string", "old_str", "old_text", "search"),
    "pattern": ("regex", "query"),
    "replace": ("new_string", "new_str", "new_text", "replacement"),
    "text": ("content", "contents", "file_text", "file_content"),
}
# What models add to say why: no tool does anything with it.
REMARKS = {"description", "explanation", "reason", "reasoning", "thought", "purpose", "comment", "summary"}
WRAPPERS = {"arguments", "parameters", "input", "params", "args"}
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NAMES = {"integer": "whole number", "number": "number", "boolean": "true or false", "array": "list", "string": "text"}


def coerced(arguments: Mapping[str, Any], schema: Schema) -> tuple[dict[str, Any], bool]:
    """The arguments in the schema's names and types, and whether anything had to change. What does not fit for certain
    stays as it is, for the tool's own check to refuse."""
    known = _properties(schema)
    fields = _renamed(_unwrapped(arguments, known), known, _required(schema))
    result = {name: _fitting(value, known.get(name, {})) for name, value in fields.items()}
    return result, json.dumps(result) != json.dumps(dict(arguments))  # 1, 1.0 and True are equal, but not the same


def expected(tool: str, schema: Schema) -> str:
    """`write(file: text, text: text)`; a field that may be left out ends in `?`."""
    known, required = _properties(schema), _required(schema)
    fields = (f"{name}{'' if name in required else '?'}: {_type_name(field)}" for name, field in known.items())
    return f"{tool}({', '.join(fields)})"


def complaint(faults: Iterable[tuple[str, str, str, Any]], schema: Schema) -> str:
    """`faults` are the field, pydantic's kind of error, its message, and the value that was given."""
    known = _properties(schema)
    said: list[str] = []
    for name, kind, message, value in faults:
        wanted = _type_name(known.get(name, {}))
        if kind == "missing":
            said.append(f"`{name}` ({wanted}) is missing")
        elif kind == "extra_forbidden":
            said.append(f"there is no field `{name}`")
        elif kind.endswith(("_type", "_parsing", "_from_float")):
            said.append(f"`{name}` must be {_article(wanted)}, not {_shown(value)}")
        else:
            message = message.removeprefix("Value error, ")
            said.append(f"`{name}`: {message}" if name else message)
    return "; ".join(said)


def _properties(schema: Schema) -> Mapping[str, Schema]:
    return schema.get("properties") or {}


def _required(schema: Schema) -> Sequence[str]:
    return schema.get("required") or []


def _unwrapped(arguments: Mapping[str, Any], known: Mapping[str, Schema]) -> Mapping[str, Any]:
    """The fields themselves, where they came inside an `arguments` of their own."""
    inner = [k for k in arguments if k in WRAPPERS]
    if len(inner) != 1 or inner[0] in known or set(arguments) - {inner[0], "name", "tool"}:
        return arguments
    value = arguments[inner[0]]
    if isinstance(value, str):
        value = _json(value)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else arguments


def _renamed(fields: Mapping[str, Any], known: Mapping[str, Schema], required: Iterable[str]) -> dict[str, Any]:
    """Another spelling of a known name (replaceAll, "Replace-All") is that name; so is another agent's name for a
    required field that is missing, if only one could be it. Null means absent; remarks go."""
    given = {k: v for k, v in fields.items() if v is not None}
    plain = {_plain(k): k for k in known}
    result: dict[str, Any] = {}
    for name, value in given.items():
        target = name if name in known else plain.get(_plain(name), name)
        if target in result or (target != name and target in given):
            target = name
        if target in known or _plain(name) not in REMARKS:
            result[target] = value
    for name in required:
        if name not in result:
            others = [o for o in ALSO_CALLED.get(name, ()) if o in result and o not in known]
            if len(others) == 1:
                result = {name if k == others[0] else k: v for k, v in result.items()}
    return result


def _plain(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").replace(" ", "_")


def _fitting(value: Any, schema: Schema) -> Any:
    kinds = _kinds(schema)
    if not kinds or _kind_of(value) in kinds:
        return [_fitting(v, schema.get("items") or {}) for v in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str):
        return _from_text(value, schema, kinds)
    if "string" in kinds and _kind_of(value) in ("integer", "number"):
        return str(value)  # as it was written
    if "integer" in kinds and isinstance(value, float) and value.is_integer():
        return int(value)
    if "number" in kinds and _kind_of(value) == "integer":
        return value
    return value


def _from_text(value: str, schema: Schema, kinds: set[str]) -> Any:
    text = value.strip()
    if ("integer" in kinds or "number" in kinds) and _NUMBER.fullmatch(text):
        number = float(text)
        if number.is_integer() and ("integer" in kinds or text.lstrip("+-").isdigit()):
            return int(number) if abs(number) < 2**53 else int(text) if text.lstrip("+-").isdigit() else value
        return number if "number" in kinds else value
    if "boolean" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kinds & {"array", "object"}:
        inner = _json(text)
        if _kind_of(inner) in kinds & {"array", "object"}:
            return _fitting(inner, schema)
    return value


def _kinds(schema: Schema) -> set[str]:
    """The JSON types a field may have; none where the schema says it in a way that is not looked into."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {k for k in cast("list[Any]", kind) if isinstance(k, str)}
    some = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(some, list):
        return set()
    parts = [_kinds(cast("Schema", s)) for s in cast("list[Any]", some) if isinstance(s, dict)]
    return set[str]().union(*parts) if all(parts) else set()


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _type_name(schema: Schema) -> str:
    kinds = _kinds(schema) - {"null"}
    return " or ".join(sorted(_NAMES.get(k, k) for k in kinds)) or "any value"


def _article(words: str) -> str:
    return words if words in ("text", "true or false", "any value") else f"{'an' if words[0] in 'aio' else 'a'} {words}"


def _shown(value: Any) -> str:
    kind = _kind_of(value)
    if kind in ("array", "object"):
        return "a list" if kind == "array" else "an object"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:40] + "…"
