"""Reads the arguments of a call as models really write them. Pure. It reads or refuses, completes nothing and guesses
nothing: half a file, or one with a backslash too few, is worse than a call that is asked for again."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from typing import Any, cast

import pyjson5

from agent.protocols import Arguments

GEMMA_QUOTE = '<|"|>'  # Gemma 4's string mark; a model that quotes its keys leaves it in them
_FENCE = re.compile(r"```[\w-]*\s*\n(.*?)\n?\s*```", re.S)
# What ends a call or a turn in the formats of the field, left behind by a server that did not know it
_ENDINGS = re.compile(r"(?:\s*(?:<tool_call\|>|</tool_call>|<turn\|>|<end_of_turn>|<eos>|<\|im_end\|>|</s>))+\s*$")
_BAD_ESCAPE = re.compile(r'\\(?:u(?![0-9a-fA-F]{4})|[^"\\/bfnrtu])')
_GEMMA_KEY = re.compile(r"([{,]\s*)([^\s{}\[\],:\"'][^{}\[\],:\"']*?)(\s*:)")
_RAW_AND_ESCAPED = (("\n", "\\n"), ("\t", "\\t"))

NOT_AN_OBJECT = "they are not a JSON object"
CUT_SHORT = "they break off before the end"
BACKSLASH = "a backslash inside a JSON string must be written twice"
LINE_ENDS = "line ends stand in a string both as they are and as \\n; write each as \\n"
TWICE = "a field is there twice with different values"
STRAY_MARK = "a string mark stands at one end of a value only"


class NumberText(float):
    """A number that remembers how it was written: `1.50` for a field of text is not `1.5`."""

    text: str

    def __new__(cls, text: str) -> NumberText:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


class _Doubt(ValueError):
    """What was meant cannot be known."""


def read_arguments(raw: str) -> Arguments:
    """Nothing at all and `null` mean "no arguments"."""
    text = raw.strip()
    if not text:
        return Arguments({})
    try:
        value, mended = _read(text)
        fields = _object(value)
        if not isinstance(value, dict) and value is not None:
            mended = True
        plain = {_key(k): _value(v) for k, v in fields.items()}
    except _Doubt as doubt:
        return Arguments(None, fault=str(doubt))
    except (ValueError, RecursionError):
        return Arguments(None, fault=NOT_AN_OBJECT)
    if len(plain) < len(fields):
        return Arguments(None, fault=TWICE)
    return Arguments(plain, mended or plain != fields)


def strict_json(text: str) -> Any:
    """Raises ValueError, also for an object that names a field twice with different values."""
    return json.loads(text, parse_float=NumberText, object_pairs_hook=_pairs)


def _read(text: str) -> tuple[Any, bool]:
    """The value, and whether it took more than JSON's own rules."""
    try:
        return strict_json(text), False
    except _Doubt:
        raise
    except (ValueError, RecursionError) as error:
        first = error
    text = _peeled(text)
    readers = (strict_json, _loose_strings, _gemma, _json5, _python, _once)
    for read in readers:
        try:
            return read(text), True
        except _Doubt:
            raise
        except (ValueError, RecursionError, MemoryError):
            continue
    raise _why(text, first)


def _peeled(text: str) -> str:
    """Without a code fence around it, and without the marks behind it."""
    text = _ENDINGS.sub("", text).strip()
    fence = _FENCE.fullmatch(text)
    return fence[1].strip() if fence else text


def _loose_strings(text: str) -> Any:
    """JSON whose strings hold line ends and tabs as they are."""
    value = json.loads(text, strict=False, parse_float=NumberText, object_pairs_hook=_pairs)
    if any(sign in text and escape in text for sign, escape in _RAW_AND_ESCAPED) and _in_a_string(text):
        raise _Doubt(LINE_ENDS)
    return value


def _in_a_string(text: str) -> bool:
    """Does a line end or a tab stand inside a string, rather than between the fields?"""
    return any("\n" in s or "\t" in s for s in re.findall(r'"(?:[^"\\]|\\.)*"', text, re.S))


def _gemma(text: str) -> Any:
    """`{file:<|"|>a.py<|"|>,limit:3}`: what stands between two marks is the string itself, without any escapes."""
    pieces = text.split(GEMMA_QUOTE)
    if len(pieces) < 3:
        raise ValueError("not Gemma's")
    if len(pieces) % 2 == 0:
        raise _Doubt(CUT_SHORT)
    if any('"' in p or "'" in p for p in pieces[::2]):
        raise ValueError("two kinds of quotes")
    written: list[str] = []
    for number, piece in enumerate(pieces):
        written.append(json.dumps(piece) if number % 2 else _GEMMA_KEY.sub(r'\1"\2"\3', piece))
    return _relaxed("".join(written))


def _json5(text: str) -> Any:
    """Names and single quotes around names and texts, a comma too many, comments. Escapes are JSON's: what JSON5 does
    with `\\d` (a plain `d`) is not what a model means."""
    if _BAD_ESCAPE.search(text.replace("\\'", "'")):
        raise ValueError("an escape that JSON does not know")
    return _relaxed(text)


def _relaxed(text: str) -> Any:
    try:
        return pyjson5.decode(text)
    except pyjson5.Json5Exception as error:
        raise ValueError(str(error)) from error


def _python(text: str) -> Any:
    """A Python dictionary. In a text of several lines an escape may be meant for the file or for us: refused."""
    if ('"""' in text or "'''" in text) and "\\" in text:
        raise _Doubt(LINE_ENDS)
    if _BAD_ESCAPE.search(text.replace("\\'", "'")):
        raise _Doubt(BACKSLASH)
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, TypeError) as error:
        raise ValueError(str(error)) from error
    json.dumps(value)  # sets, bytes and complex numbers are none of ours
    return value


def _once(text: str) -> Any:
    """An object with closing brackets too many behind it, or written twice over."""
    value, end = json.JSONDecoder(parse_float=NumberText, object_pairs_hook=_pairs).raw_decode(text)
    rest = text[end:].strip()
    if rest.strip("}] \n") and strict_json(rest) != value:
        raise _Doubt("there is more than one object")
    return value


def _why(text: str, error: Exception) -> _Doubt:
    if _BAD_ESCAPE.search(text):
        return _Doubt(BACKSLASH)
    if isinstance(error, json.JSONDecodeError) and (
        error.msg.startswith("Unterminated string") or error.pos >= len(error.doc.rstrip())
    ):
        return _Doubt(CUT_SHORT)
    return _Doubt(NOT_AN_OBJECT)


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs) and any(fields[k] != v for k, v in pairs):
        raise _Doubt(TWICE)
    return fields


def _object(value: Any, *, inside: bool = False) -> dict[str, Any]:
    """The object itself, or the one inside a text or a list of one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if isinstance(value, list) and len(items := cast("list[Any]", value)) == 1 and isinstance(items[0], dict):
        return cast("dict[str, Any]", items[0])
    if isinstance(value, str) and value.lstrip().startswith("{") and not inside:
        return _object(_read(value.strip())[0], inside=True)
    raise _Doubt(NOT_AN_OBJECT)


def _key(key: object) -> str:
    return str(key).replace(GEMMA_QUOTE, "").strip().strip("\"'`")


def _value(value: Any) -> Any:
    if not isinstance(value, str) or GEMMA_QUOTE not in value:
        return value
    starts, ends = value.startswith(GEMMA_QUOTE), value.endswith(GEMMA_QUOTE)
    if starts and ends and len(value) >= 2 * len(GEMMA_QUOTE):
        return value[len(GEMMA_QUOTE) : -len(GEMMA_QUOTE)]
    if starts or ends:
        raise _Doubt(STRAY_MARK)
    return value
