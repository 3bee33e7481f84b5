"""Why part of a prompt was read again. Compares each request, as it went out, with the one before it, and what the
server had in its cache with what it should have had. Pure: knows requests as JSON data and nothing of servers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agent.events import REWRITES, AssistantAdded, Compacted, DurableEvent, Endpoint, Owner, Reread
from agent.messages import AssistantMessage

# A server reads a few tokens again in any case: at least the last one, those behind a checkpoint, the end of a turn.
SLACK = 8
LITTLE = 0.1  # share of what was held; below that it is not one message that is read again but all of it
EXCERPT = 24  # characters shown of what was, and of what is


@dataclass(frozen=True, slots=True)
class Change:
    """The first thing that differs, in the order in which a prompt is put together."""

    whose: Owner
    what: str


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    """Two bodies of chat requests. None: `after` begins with all of `before`. A user's message that nothing has
    answered may grow at its end."""
    if (old := before.get("model")) != (new := after.get("model")):
        return Change("server", f"another model: {new} instead of {old}")
    if (old := _switch(before)) != (new := _switch(after)):
        return Change("thinking", f"thinking was switched {'on' if new else 'off'}")
    was, now = _messages(before), _messages(after)
    old, new = _system(was), _system(now)
    if old != new:
        return Change("system", f"the system prompt, {_difference(old, new)}")
    if change := _tools(_list(before, "tools"), _list(after, "tools")):
        return Change("tools", f"the tool block: {change}")
    for number, (one, other) in enumerate(zip(was, now, strict=False)):
        if one == other or (number == len(was) - 1 and _grown(one, other)):
            continue
        if other in was[number:]:
            return _gone(was, number, was.index(other, number))
        return Change("message", f"message {number} ({one.get('role')}), {_message(one, other)}")
    return _gone(was, len(now), len(was)) if len(now) < len(was) else None


class Reading:
    """Follows the requests of one session. `expect`: tokens that the server had before the first of them."""

    def __init__(self, expect: int | None = None) -> None:
        self._sent: Mapping[str, Any] | None = None
        self._held = expect
        self._epoch = False
        self._endpoint: Endpoint | None = None
        self._moved = False

    @property
    def sent(self) -> Mapping[str, Any] | None:
        """The body of the newest request."""
        return self._sent

    def server(self, endpoint: Endpoint | None) -> None:
        """Who answers from now on."""
        if endpoint is None:
            return
        old, self._endpoint = self._endpoint, endpoint
        self._moved = self._moved or (old is not None and (old.base_url, old.api_key) != _place(endpoint))

    def epoch(self) -> None:
        """Earlier messages were replaced on purpose."""
        self._epoch = True

    def judge(self, sent: Mapping[str, Any] | None, reply: AssistantMessage) -> Reread | None:
        """What of the prompt of `reply` was read though it had been read before, and why. `sent`: its request."""
        if sent is None:
            return None
        before, self._sent = self._sent, sent
        held, epoch, moved = self._held, self._epoch, self._moved
        self._epoch = self._moved = False
        cached, prompt = counts(reply)
        if prompt is not None:
            self._held = prompt + _generated(reply)
        if held is None or cached is None or held - cached <= SLACK:
            return None
        missing = held - cached
        if epoch:
            return Reread(missing, "compaction", "the conversation was compacted: a new beginning, read once")
        change = compare(before, sent) if before is not None else None
        if change and not (change.whose == "thinking" and self._keeps("switch")):
            return Reread(missing, change.whose, change.what)
        return Reread(missing, *self._behind_the_bytes(cached, held, moved, first=before is None))

    def _behind_the_bytes(self, cached: int, held: int, moved: bool, *, first: bool) -> tuple[Owner, str]:
        """Nothing that was sent has changed."""
        if moved:
            return "server", "the same bytes, but another engine answers: its cache was empty"
        if first:
            return "server", "the first request since this session was opened: the engine no longer held it"
        if cached < held * LITTLE:
            return "server", "the same bytes, but the server's cache was lost: another conversation took its place"
        found = self._endpoint.rewrites if self._endpoint else None
        if found:
            return "template", "the same bytes, but the server's chat template " + "; it ".join(
                REWRITES[key] for key in found if key in REWRITES
            )
        return "template", "the same bytes, but the last reply is not rendered as the model wrote it"

    def _keeps(self, key: str) -> bool:
        found = self._endpoint.rewrites if self._endpoint else None
        return found is not None and key not in found


def held(past: Iterable[DurableEvent]) -> int | None:
    """Tokens that the server had of a session when it was left; None: nothing is known of it."""
    found = None
    for event in past:
        match event:
            case AssistantAdded(message=message) if (prompt := counts(message)[1]) is not None:
                found = prompt + _generated(message)
            case Compacted():
                found = None
            case _:
                pass
    return found


def _generated(reply: AssistantMessage) -> int:
    """Tokens of it that the server has computed on: all but the last."""
    return max(0, (reply.timings.predicted_n or reply.usage.generated_tokens or 0) - 1)


def _place(endpoint: Endpoint) -> tuple[str, str]:
    return endpoint.base_url, endpoint.api_key


def counts(reply: AssistantMessage) -> tuple[int | None, int | None]:
    """Tokens of the prompt: found in the cache, and all."""
    t, u = reply.timings, reply.usage
    if t.cache_n is not None and t.prompt_n is not None:
        return t.cache_n, t.cache_n + t.prompt_n
    return u.cached_tokens, u.prompt_tokens


def _switch(body: Mapping[str, Any]) -> bool | None:
    kwargs = body.get("chat_template_kwargs")
    return cast("dict[str, bool]", kwargs).get("enable_thinking") if isinstance(kwargs, dict) else None


def _list(body: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", body.get(key) or [])


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _list(body, "messages")


def _system(messages: Sequence[Mapping[str, Any]]) -> str:
    return str(messages[0].get("content")) if messages and messages[0].get("role") == "system" else ""


def _grown(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (
        one.get("role") == other.get("role") == "user"
        and str(other.get("content")).startswith(str(one.get("content")))
        and {**one, "content": ""} == {**other, "content": ""}
    )


def _gone(was: Sequence[Mapping[str, Any]], first: int, end: int) -> Change:
    more = f" with {end - first - 1} more" if end - first > 1 else ""
    return Change("message", f"message {first} ({was[first].get('role')}), taken out{more}")


def _tools(was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str:
    if was == now:
        return ""
    old, new = ({str(t["function"]["name"]): t["function"] for t in tools} for tools in (was, now))
    if added := [n for n in new if n not in old]:
        return f"{', '.join(added)} came in"
    if gone := [n for n in old if n not in new]:
        return f"{', '.join(gone)} went out"
    for name, function in old.items():
        for key in dict.fromkeys((*function, *new[name])):
            if function.get(key) != new[name].get(key):
                return f"{key} of {name}, {_difference(_text(function.get(key)), _text(new[name].get(key)))}"
    return "the tools are in another order"


def _message(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    if one.get("role") != other.get("role"):
        same = one.get("content") == other.get("content")
        return f"its role became {other.get('role')}" if same else f"one of {other.get('role')} stands in its place"
    if one.get("reasoning_content") != other.get("reasoning_content"):
        return "its thoughts were dropped" if not other.get("reasoning_content") else "its thoughts changed"
    if one.get("content") != other.get("content"):
        return _difference(_text(one.get("content")), _text(other.get("content")))
    was, now = _list(one, "tool_calls"), _list(other, "tool_calls")
    if len(was) != len(now):
        return f"it has {len(now)} calls instead of {len(was)}"
    for number, (old, new) in enumerate(zip(was, now, strict=True), 1):
        if old != new:
            return f"call {number}: {_call(old['function'], new['function'])}"
    return "it refers to another call"


def _call(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    if old["name"] != new["name"]:
        return f"{new['name']} instead of {old['name']}"
    if old["arguments"] == new["arguments"]:
        return "it has another id"
    was: Any = None
    now: Any = None
    with contextlib.suppress(ValueError):
        was, now = json.loads(old["arguments"]), json.loads(new["arguments"])
    if was is None or was != now:
        return f"its arguments, {_difference(old['arguments'], new['arguments'])}"
    if list(was) != list(now):
        return f"its arguments are in another order ({', '.join(now)} instead of {', '.join(was)})"
    return "its arguments are written in another way"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _difference(old: str, new: str) -> str:
    at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    was, now = (text[at : at + EXCERPT] for text in (old, new))
    return f"from character {at}: {_quoted(was)} became {_quoted(now)}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else "its end"
