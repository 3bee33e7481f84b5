"""Whether a server's chat template keeps the prefix: each request an extension of the one before, byte for byte. Found
out by having the server render a short conversation as it grows; nothing is generated, no slot is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import httpx2

from agent.config.foreign import mapping
from agent.events import REWRITES

Message: TypeAlias = dict[str, Any]
Render: TypeAlias = Callable[[Sequence[Message], bool], Awaitable[str]]

# Without one of these, every turn or every step of a turn is read twice.
ESSENTIAL = frozenset({"reply", "call", "order", "turn"})
SILENCE = 120.0  # seconds; a long prompt may be ahead of ours
PATIENCE = 5.0  # seconds for all of it; a whole look takes 0.03 to 0.15

_TOOL = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"alpha": {"type": "string"}, "zeta": {"type": "string"}},
            "required": ["alpha", "zeta"],
        },
    },
}
_START: tuple[Message, ...] = ({"role": "system", "content": "A system."}, {"role": "user", "content": "First."})
_NEXT: Message = {"role": "user", "content": "Second."}
_LAST: Message = {"role": "user", "content": "Third."}
_RESULT: Message = {"role": "tool", "tool_call_id": "call00001", "content": "A result."}
_SAID, _THOUGHT, _ENDS = "Some words.", "A thought of its own.\n", "Ends so.\n\n"


def _call(said: str = "") -> Message:
    function = {"name": "probe", "arguments": '{"zeta":"Z-value","alpha":"A-value"}'}
    return {
        "role": "assistant",
        "content": said,
        "tool_calls": [{"id": "call00001", "type": "function", "function": function}],
    }


def _reply(text: str, **more: str) -> Message:
    return {"role": "assistant", "content": text, **more}


async def rewrites(render: Render) -> tuple[str, ...]:
    """Keys of events.REWRITES: what of earlier messages is rendered anew; () where the prefix is kept in every way."""
    found: list[str] = []
    opening = await render(_START, False)
    second = await render((*_START, _reply(_SAID), _NEXT), False)
    if not second.startswith(opening + _SAID):
        found.append("reply")
    third = await render((*_START, _reply(_ENDS), _NEXT), False)
    if "reply" not in found and not third.startswith(opening + _ENDS):
        found.append("trim")
    looped = await render((*_START, _call(), _RESULT), False)
    if "reply" not in found and not looped.startswith(opening):
        found.append("call")
    if 0 <= looped.find("A-value") < looped.find("Z-value"):
        found.append("order")
    beside = await render((*_START, _call(_SAID), _RESULT), False)
    if not 0 <= beside.find(_SAID) < (beside + "-value").find("-value"):
        found.append("beside")
    if not (await render((*_START, _call(), _RESULT, _reply(_SAID), _LAST), False)).startswith(looped + _SAID):
        found.append("turn")
    thinking = await render(_START, True)
    thought = await render((*_START, _reply(_SAID, reasoning_content=_THOUGHT), _NEXT), True)
    kept = thought.startswith(thinking) and 0 <= thought.find(_THOUGHT.strip()) < thought.find(_SAID)
    if thinking != opening and not kept:  # one that renders both alike belongs to a model that does not think
        found.append("thought")
    if thinking[: opening.find("First.") + 6] != opening[: opening.find("First.") + 6]:
        found.append("switch")
    return tuple(found)


def renderer(client: httpx2.AsyncClient) -> Render:
    """By a llama-server. Raises httpx2.HTTPError where it cannot render what is asked."""

    async def render(messages: Sequence[Message], thinking: bool) -> str:
        switch = {"enable_thinking": thinking, "think_first": False}
        body = {"messages": list(messages), "tools": [_TOOL], "chat_template_kwargs": switch}
        answer = await client.post("/apply-template", json=body)
        answer.raise_for_status()
        return str(mapping(answer.json()).get("prompt") or "")

    return render


async def look(client: httpx2.AsyncClient) -> tuple[str, ...] | None:
    """`rewrites` of a llama-server; None where it cannot render what is asked, or not in time."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await rewrites(renderer(client))
    except (TimeoutError, ValueError, httpx2.HTTPError):
        return None


async def misfit(client: httpx2.AsyncClient, found: tuple[str, ...] | None, chat_format: str) -> str:
    """Why a derived template is no better than the model's own, as the end of a sentence; "" when it serves. `found`:
    what `look` said; `chat_format`: what the server must take its replies for. Generates one token."""
    if found is None:
        return "the engine cannot render a conversation with it"
    if lost := [key for key in found if key in ESSENTIAL]:
        return f"it still {REWRITES[lost[0]]}"
    body = {"messages": list(_START), "tools": [_TOOL], "max_tokens": 1, "verbose": True}
    answer = await client.post("/v1/chat/completions", json=body, timeout=SILENCE)
    if answer.status_code != 200:
        return f"the engine refuses a request with it ({answer.text[:200]})"
    said = mapping(mapping(mapping(answer.json()).get("__verbose")).get("generation_settings")).get("chat_format")
    if chat_format and said and said != chat_format:
        return f"the engine reads its replies as {said} instead of {chat_format}"
    return ""
