"""Between our vocabulary and the JSON of an OpenAI-compatible server. Pure: no sockets, no clients.

What is read here comes from outside: every field may be missing, null or of another type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from agent.config.foreign import mapping
from agent.events import Endpoint
from agent.messages import AssistantMessage, Message, Timings, ToolMessage, Usage, UserMessage
from agent.model.repair import read_arguments
from agent.model.split import Split
from agent.protocols import (
    CallChunk,
    FinishChunk,
    ModelChunk,
    ModelRequest,
    PrefillChunk,
    TextChunk,
    ThinkingChunk,
)

_REASONS: Mapping[str, Literal["stop", "tool_calls", "length"]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "stop",
}


# ---- out
@dataclass(frozen=True, slots=True)
class Manner:
    """How history is sent so that the server's template extends what is in its cache. beside: text beside calls goes
    along; a template that moves it would have the model read its own words out of order. thoughts: go along; llama.cpp
    alone is known to take them. exact: down to the blank space at their end."""

    beside: bool = False
    thoughts: bool = False
    exact: bool = False

    @classmethod
    def of(cls, endpoint: Endpoint) -> Manner:
        keeps, known = endpoint.rewrites or (), endpoint.rewrites is not None
        return cls(known and "beside" not in keeps, bool(endpoint.engine), known and "thought" not in keeps)


def request_body(
    request: ModelRequest, endpoint: Endpoint, tools: Sequence[Any], extra: Mapping[str, Any]
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": messages_json(request.system, request.messages, Manner.of(endpoint)),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "cache_prompt": True,
    }
    if tools:
        body |= {"tools": list(tools), "parallel_tool_calls": True}
        if not request.may_call:
            body["tool_choice"] = "none"
    if request.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": bool(request.thinking)}
        if request.thinking and not isinstance(request.thinking, bool):
            body["thinking_budget_tokens"] = request.thinking
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    body |= extra
    if "enable_thinking" in (switch := mapping(body.get("chat_template_kwargs"))):
        body["chat_template_kwargs"] = {**switch, "think_first": request.think_first}
    return body


def messages_json(system: str, messages: Sequence[Message], manner: Manner) -> list[dict[str, Any]]:
    """History as the server accepts it, append-only: an earlier message is always rendered the same way.

    A reply without a word or a call (stopped before its first token) is left out. What then stands side by side becomes
    one message: some templates refuse two of a kind in a row, and llama-server two replies at the end.
    """
    out: list[dict[str, Any]] = [{"role": "system", "content": _clean(system)}] if system else []
    for message in messages:
        match message:
            case UserMessage(text=text):
                _add(out, {"role": "user", "content": _clean(text)})
            case AssistantMessage():
                if message.text.strip() or message.calls:
                    _add(out, _assistant(message, manner))
            case ToolMessage(call_id=call_id, text=text):
                out.append({"role": "tool", "tool_call_id": call_id, "content": _clean(text)})
    return out


def _add(out: list[dict[str, Any]], message: dict[str, Any]) -> None:
    last = out[-1] if out else {}
    if last.get("role") == message["role"] and not ("tool_calls" in last or "tool_calls" in message):
        message = {**last, **message, "content": f"{last['content']}\n\n{message['content']}"}
        out.pop()
    out.append(message)


def _assistant(message: AssistantMessage, manner: Manner) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": _clean(message.text)}
    if manner.thoughts and message.thinking:
        said["reasoning_content"] = _clean(message.thinking if manner.exact else message.thinking.strip("\n"))
    if not message.calls:
        return said
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name or "unknown", "arguments": _object(c.arguments)}}
        for c in message.calls
    ]
    return said | {"content": said["content"] if manner.beside else "", "tool_calls": calls}


def _object(arguments: str) -> str:
    """The very text of the model where the server's strict reader takes it as an object; else what was understood of
    it, so that the model sees the call that ran. With anything else in its history (NaN, 1e999, half a surrogate pair)
    the server would refuse this and every later request."""
    if _is_strict(arguments):
        return _clean(arguments)
    mended = json.dumps(read_arguments(arguments).fields or {}, ensure_ascii=False)
    return _clean(mended) if _is_strict(mended) else "{}"


def _is_strict(arguments: str) -> bool:
    try:
        value = json.loads(arguments, parse_constant=_not_json, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()
        return isinstance(value, dict)
    except (ValueError, RecursionError):
        return False


def _not_json(name: str) -> None:
    raise ValueError(name)


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(text)
    return value


def _clean(text: str) -> str:
    """Lone surrogates (a file name that is not UTF-8) cannot be sent; two halves of one character are put together."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# ---- in
class Reader:
    """Reads the chunks of one stream; `finish` gives what was gathered on the way."""

    def __init__(self) -> None:
        self._reason: Literal["stop", "tool_calls", "length"] | None = None
        self._usage = Usage()
        self._timings = Timings()
        self._split = Split()
        self._halves: dict[str, str] = {}

    @property
    def ended(self) -> bool:
        """The server has said why the reply ends."""
        return self._reason is not None

    def read(self, chunk: Any) -> Iterator[ModelChunk]:
        data = mapping(chunk)
        if progress := mapping(data.get("prompt_progress")):
            yield PrefillChunk(
                _int(progress.get("total")) or 0,
                _int(progress.get("cache")) or 0,
                _int(progress.get("processed")) or 0,
                _float(progress.get("time_ms")) or 0.0,
            )
        if usage := mapping(data.get("usage")):
            details = mapping(usage.get("prompt_tokens_details"))
            self._usage = Usage(
                _int(usage.get("prompt_tokens")),
                _int(details.get("cached_tokens")),
                _int(usage.get("completion_tokens")),
            )
        for choice in _list(data.get("choices"))[:1]:
            choice = mapping(choice)
            for piece in self._delta(mapping(choice.get("delta"))):
                self._split.wrote(piece)
                yield piece
            reason = choice.get("finish_reason")
            if isinstance(reason, str):
                self._reason = _REASONS.get(reason, "stop")
        if timings := mapping(data.get("timings")):
            self._timings = _timings(timings)
            self._split.counted(self._timings)

    def finish(self) -> FinishChunk:
        return FinishChunk(self._reason, self._usage, replace(self._timings, split=self._split.shares()))

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[ModelChunk]:
        for key in ("reasoning_content", "reasoning"):
            if thought := self._joined("thinking", _text(delta.get(key))):
                yield ThinkingChunk(thought)
                break
        if text := self._joined("text", _text(delta.get("content"))):
            yield TextChunk(text)
        for position, call in enumerate(_list(delta.get("tool_calls"))):
            call = mapping(call)
            function = mapping(call.get("function"))
            arguments = function.get("arguments")
            if arguments is not None and not isinstance(arguments, str):
                arguments = json.dumps(arguments, ensure_ascii=False)  # some servers send the object itself
            index = _int(call.get("index"))
            index = position if index is None else index
            arguments = self._joined(f"call {index}", arguments or "")
            yield CallChunk(index, _text(call.get("id")), _text(function.get("name")), arguments)

    def _joined(self, where: str, text: str) -> str:
        """A server that escapes its JSON may cut a character in two, one surrogate a chunk: the first half waits."""
        if not text:
            return ""
        text = self._halves.pop(where, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self._halves[where] = text[-1]
            text = text[:-1]
        return _clean(text)


def _timings(data: Mapping[str, Any]) -> Timings:
    return Timings(
        cache_n=_int(data.get("cache_n")),
        prompt_n=_int(data.get("prompt_n")),
        prompt_ms=_float(data.get("prompt_ms")),
        predicted_n=_int(data.get("predicted_n")),
        predicted_ms=_float(data.get("predicted_ms")),
        predicted_per_second=_float(data.get("predicted_per_second")),
        draft_n=_int(data.get("draft_n")),
        draft_n_accepted=_int(data.get("draft_n_accepted")),
    )


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: Any) -> str:
    """A string, or the text parts of a list of parts."""
    if isinstance(value, str):
        return value
    return "".join(_text(mapping(part).get("text")) for part in _list(value))


def _int(value: Any) -> int | None:
    number = _float(value)
    return None if number is None else int(number)


def _float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an int beyond any float
        return None
