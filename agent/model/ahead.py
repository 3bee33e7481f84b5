"""Has a llama-server read what the next request will begin with, before there is one. Knows no conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import openai

from agent.config.foreign import mapping

# What the user will say is not known. What the prompts of two messages have in common is what that of any begins with.
GUESSES = ("A", "B")
_Events: TypeAlias = openai.AsyncStream[object]


async def read_ahead(client: openai.AsyncOpenAI, root: str, bodies: Sequence[Mapping[str, Any]]) -> int | None:
    """`root`: the server's address without /v1; `bodies`: of chat requests that end in one of GUESSES each. Returns the
    number of tokens that were read, without those that were in the cache; None where nothing was, because the server
    works for somebody. Raises what the library raises. Cancelling closes the connection, on which the server stops;
    what it has read till then stays in its cache."""
    slots = await client.get(f"{root}/slots", cast_to=object)
    if any(mapping(slot).get("is_processing") for slot in cast("list[object]", slots)):
        return None
    prompts = [
        str(mapping(await client.post(f"{root}/apply-template", body=body, cast_to=object)).get("prompt"))
        for body in bodies
    ]
    body = {"prompt": _common(prompts[0], prompts[1]), "n_predict": 0, "cache_prompt": True}
    # As a stream with progress: the server then notices at the next batch that nobody listens any more.
    body |= {"stream": True, "return_progress": True}
    events = await client.post(f"{root}/completion", body=body, cast_to=object, stream=True, stream_cls=_Events)
    read = 0
    try:
        async for event in events:
            read = mapping(mapping(event).get("timings")).get("prompt_n", read)
    finally:
        await events.close()
    return read


def _common(one: str, other: str) -> str:
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:at]
