"""Finds calls that a model wrote into its answer because the server's parser did not know them. Pure.

Only what cannot be anything else counts: a call that follows a marker to the end of the answer, outside of any code, or
an answer that is one JSON object naming a known tool and nothing besides. A call that is talked about stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, cast

from agent.model.repair import GEMMA_QUOTE, read_arguments

Found = tuple[str, str]  # name and arguments as written

_GEMMA = re.compile(r"<\|tool_call>\s*call:\s*(?P<name>[\w.-]+)\s*(?=\{)")
_GEMMA_END = re.compile(r"\s*<tool_call\|>")
_TAGGED = re.compile(r"<tool_call>\s*(?=[{<])")
_TAGGED_END = re.compile(r"\s*</tool_call>")
_FUNCTION = re.compile(r"<function=(?P<name>[\w.-]+)>\s*(?P<body>.*?)\s*</function>", re.S)
_PARAMETER = re.compile(r"<parameter=(?P<key>[\w.-]+)>\n?(?P<value>.*?)\n?</parameter>\s*", re.S)
_FENCE = re.compile(r"```(?:json|tool_call|tool_code|tool)?\s*\n(?P<body>\{.*\})\s*\n?```", re.S)
_FIRST = re.compile(r"<\|tool_call>\s*call:|<tool_call>|<function=[\w.-]+>")
# What a model writes behind its calls: the end of its turn, or a result it has made up, which is worth nothing.
_OVER = re.compile(r"(?:\s|<turn\|>|<end_of_turn>|<eos>|<\|im_end\|>|</s>)*\Z|\s*<\|?tool_response")
_AROUND = {"name", "arguments", "parameters", "type", "id"}


def calls_in(text: str, tools: Collection[str]) -> tuple[str, tuple[Found, ...]]:
    """The answer without its calls, and the calls in order; none, and the answer as it is, where there is any doubt.
    A call that breaks off is among them: its arguments cannot be read, and the model will be told so."""
    bare = _whole_answer(text, tools)
    if bare:
        return "", (bare,)
    first = _FIRST.search(text)
    if first is None or not _outside_code(text[: first.start()]):
        return text, ()
    found: list[Found] = []
    at = first.start()
    while not _OVER.match(text, at):
        call, at = _next(text, at)
        if call is None:
            return text, ()
        found.append(call)
        at += len(text[at:]) - len(text[at:].lstrip())
    return (text[: first.start()].rstrip(), tuple(found)) if found else (text, ())


def _outside_code(before: str) -> bool:
    line = before.rpartition("\n")[2]
    return before.count("```") % 2 == 0 and line.count("`") % 2 == 0 and not line.lstrip().startswith(">")


def _next(text: str, at: int) -> tuple[Found | None, int]:
    """The call that begins at `at`, and where it ends."""
    if gemma := _GEMMA.match(text, at):
        return _gemma(text, gemma)
    if tagged := _TAGGED.match(text, at):
        if text.startswith("<", tagged.end()):
            call, end = _function(text, tagged.end())
            closed = _TAGGED_END.match(text, end) if call else None
            return (call, closed.end() if closed else end) if call else (None, at)
        return _object(text, tagged.end())
    return _function(text, at)


def _gemma(text: str, opening: re.Match[str]) -> tuple[Found, int]:
    """Up to the end mark that stands outside of any string; without one the call broke off."""
    at, inside = opening.end(), False
    while at < len(text):
        if text.startswith(GEMMA_QUOTE, at):
            inside, at = not inside, at + len(GEMMA_QUOTE)
        elif not inside and (end := _GEMMA_END.match(text, at)):
            return (opening["name"], text[opening.end() : at].strip()), end.end()
        else:
            at = min(p for p in (text.find(GEMMA_QUOTE, at + 1), text.find("<tool_call|>", at + 1), len(text)) if p > 0)
    return (opening["name"], text[opening.end() :].strip()), len(text)


def _object(text: str, at: int) -> tuple[Found | None, int]:
    """`{"name": …, "arguments": …}` up to its end tag, or to the end of the answer."""
    try:
        _, length = json.JSONDecoder(strict=False).raw_decode(text[at:])
        end = at + length
    except (ValueError, RecursionError):
        close = text.find("</tool_call>", at)
        end = close if close >= 0 else len(text)
    written = text[at:end].strip()
    closed = _TAGGED_END.match(text, end)
    call = _named(written) or _broken(written)
    return call, closed.end() if closed else end


def _named(written: str) -> Found | None:
    """Name and arguments of an object that holds these two and nothing that says otherwise."""
    fields = read_arguments(written).fields
    if not fields or not isinstance(name := fields.get("name"), str) or not set(fields) <= _AROUND:
        return None
    inner: Any = fields.get("function")
    given = [fields[k] for k in ("arguments", "parameters") if k in fields]
    if len(given) != 1 or inner is not None:
        return None
    return name, given[0] if isinstance(given[0], str) else json.dumps(given[0], ensure_ascii=False)


def _broken(written: str) -> Found | None:
    name = re.match(r'\{\s*"name"\s*:\s*"([\w.-]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*', written)
    return (name[1], written[name.end() :] or "{") if name else None


def _function(text: str, at: int) -> tuple[Found | None, int]:
    """Qwen's `<function=bash><parameter=command>…`: every value is text between two tags, without the line ends that
    stand beside them."""
    whole = _FUNCTION.match(text, at)
    if whole is None:
        opening = re.compile(r"<function=([\w.-]+)>").match(text, at)
        return ((opening[1], "{"), len(text)) if opening else (None, at)
    fields: dict[str, str] = {}
    rest = whole["body"].strip()
    while rest:
        parameter = _PARAMETER.match(rest)
        if parameter is None or parameter["key"] in fields:
            return (whole["name"], "{"), whole.end()
        fields[parameter["key"]] = parameter["value"]
        rest = rest[parameter.end() :]
    return (whole["name"], json.dumps(fields, ensure_ascii=False)), whole.end()


def _whole_answer(text: str, tools: Collection[str]) -> Found | None:
    bare = text.strip()
    if fence := _FENCE.fullmatch(bare):
        bare = fence["body"]
    if not (bare.startswith("{") and bare.endswith("}") and '"name"' in bare):
        return None
    try:
        fields = json.loads(bare)
    except (ValueError, RecursionError):
        return None
    named = _named(bare) if isinstance(fields, dict) and "name" in cast("dict[str, Any]", fields) else None
    return named if named and named[0] in tools else None
