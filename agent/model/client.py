"""The only importer of openai. Streams one chat reply after another; keeps no conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import httpx2
import openai

from agent.config.foreign import is_local, mapping
from agent.errors import AgentError, Looping, Refused
from agent.events import Endpoint
from agent.messages import UserMessage
from agent.model.ahead import GUESSES, read_ahead
from agent.model.faults import FOREIGN, fault_in_stream, fault_of, fault_of_body, lost
from agent.model.repetition import RepetitionGuard
from agent.model.sse import DONE, EventReader
from agent.model.watch import LOOK_AFTER, Lost, Watch
from agent.model.wire import Reader, request_body
from agent.protocols import CallChunk, ModelChunk, ModelRequest, SentChunk, TextChunk, ThinkingChunk

# llama-server sends a comment every 30 s while it works and a chunk for every batch of prompt it has read, so two
# minutes without a byte mean that it is stuck, not slow.
READ_SILENCE = 120.0
CONNECT = 5.0  # seconds
LOOK = 5.0  # seconds; a server whose main loop hangs does not answer, which proves nothing
COUNTING = 5.0  # seconds; 30,000 tokens are rendered and counted in 0.05 s


class OpenAIModel:
    """`ensure_ready` heals a server that has died. What `extra` gives goes into each request body. `silence`: seconds
    without a byte after which the server counts as stuck; after `look_after` it is asked whether it works at all."""

    def __init__(
        self,
        ensure_ready: Callable[[], Awaitable[Endpoint]],
        extra: Callable[[], Mapping[str, Any]] = dict[str, Any],
        silence: float = READ_SILENCE,
        look_after: float = LOOK_AFTER,
    ) -> None:
        self._ensure_ready = ensure_ready
        self._silence = silence
        self._look_after = look_after
        self._extra = extra
        self._client: openai.AsyncOpenAI | None = None
        self._http: httpx2.AsyncClient | None = None
        self._endpoint: Endpoint | None = None
        self._tools: tuple[str, list[Any]] = ("", [])
        self._sent: tuple[Endpoint, Mapping[str, Any]] | None = None  # the newest request, and to whom

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Raises a ModelFault, or what `ensure_ready` raises. Closing the generator closes the connection."""
        endpoint = await self._ensure_ready()
        body = self._body(request, endpoint)
        if endpoint.speculative:  # only then is there more to tell than the last chunk does
            body["timings_per_token"] = True
        self._sent = (endpoint, body)
        yield SentChunk(body)
        reader, events, guard, started = Reader(), EventReader(), RepetitionGuard(), False
        pieces = self._bytes(endpoint, body)
        try:
            async for piece in pieces:
                for event in events.feed(piece):
                    if event.startswith(DONE):
                        break
                    data = json.loads(event)
                    if error := fault_in_stream(data):
                        raise error
                    for chunk in reader.read(data):
                        started = True
                        yield chunk
                        if piece := guard.feed(_written(chunk)):
                            raise Looping(f"The reply repeats {piece[:40]!r} without end and was stopped.", piece)
                else:
                    continue
                break
            else:
                for event in events.finish():
                    for chunk in reader.read(_whole(event)):
                        yield chunk
                if not events.seen:
                    raise fault_of_body(events.stray)
        except Lost as error:
            raise lost(started=started) from error
        except FOREIGN as error:
            if not reader.ended:  # a complete reply stays one, however the connection ends
                raise fault_of(error, started=started, silence=self._silence) from error
        finally:
            await pieces.aclose()
        yield reader.finish()

    async def read_ahead(self, request: ModelRequest) -> int | None:
        endpoint = await self._ensure_ready()
        tools: list[Any] = json.loads(request.tools) if request.tools else []
        if not endpoint.engine or (self._sent and self._sent[0] == endpoint and _begins(self._sent[1], request, tools)):
            return None
        asked = [replace(request, messages=(*request.messages, UserMessage("", guess))) for guess in GUESSES]
        bodies = [request_body(r, endpoint, tools, self._extra()) for r in asked]
        try:
            return await read_ahead(await self._client_for(endpoint), endpoint.base_url, bodies)
        except FOREIGN as error:
            raise fault_of(error, started=False, silence=self._silence) from error

    async def _bytes(self, endpoint: Endpoint, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """Raises Lost, and what the libraries raise. The typed call would build a pydantic object for each token and
        trip over unusual fields; this is the same request. Its bytes are read here, because the library's reader passes
        over an error that a server sends outside of `data:` and the reply then looks merely unfinished."""
        client = await self._client_for(endpoint)
        async with Watch(lambda: self._idle(endpoint), self._look_after) as watch:
            stream = await watch.wait(
                client.post("/chat/completions", body=body, cast_to=object, stream=True, stream_cls=_RawStream)
            )
            try:
                pieces = stream.response.aiter_bytes()
                while (piece := await watch.wait(anext(pieces, None))) is not None:
                    yield piece
            finally:
                await stream.close()

    async def _idle(self, endpoint: Endpoint) -> bool:
        """Does a llama-server say that it works on nothing?"""
        assert self._http is not None
        headers = {"Authorization": f"Bearer {endpoint.api_key}"}
        try:
            answer = await self._http.get(f"{endpoint.base_url}/slots", headers=headers, timeout=LOOK)
            slots = answer.json() if answer.status_code == 200 else None
        except FOREIGN:
            return False
        return isinstance(slots, list) and not any(
            mapping(slot).get("is_processing", True) for slot in cast("list[object]", slots)
        )

    async def count(self, request: ModelRequest) -> int | None:
        """Tokens of the request as the server would render it; None where it cannot say, or does not answer."""
        try:
            endpoint = await self._ensure_ready()
            if not endpoint.engine:  # not a llama-server
                return None
            client = await self._client_for(endpoint)
            answer = await client.post(
                "/chat/completions/input_tokens",
                body=self._body(request, endpoint),
                cast_to=object,
                options={"timeout": COUNTING},
            )
        except (*FOREIGN, AgentError):
            return None
        tokens = mapping(answer).get("input_tokens")
        return tokens if isinstance(tokens, int) else None

    def _body(self, request: ModelRequest, endpoint: Endpoint) -> dict[str, Any]:
        if request.tools != self._tools[0]:
            self._tools = (request.tools, json.loads(request.tools) if request.tools else [])
        return request_body(request, endpoint, self._tools[1], self._extra())

    async def _client_for(self, endpoint: Endpoint) -> openai.AsyncOpenAI:
        if self._client is None or endpoint != self._endpoint:
            if not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()):
                raise Refused("The server's key holds characters that no request can carry. Set DFLASH_SERVER_KEY.")
            if self._client is not None:
                await self._client.close()
            self._http = httpx2.AsyncClient(
                trust_env=not is_local(endpoint.base_url),  # a proxy from the environment would capture loopback too
                timeout=httpx2.Timeout(self._silence, connect=CONNECT),
            )
            self._client = openai.AsyncOpenAI(
                api_key=endpoint.api_key or "none",  # the library refuses an empty one
                base_url=f"{endpoint.base_url}/v1",
                organization="",
                project="",
                max_retries=0,  # a retry would repeat a whole generation; the core decides
                http_client=self._http,
            )
            self._endpoint = endpoint
        return self._client


def _begins(sent: Mapping[str, Any], request: ModelRequest, tools: list[Any]) -> bool:
    """Whether all that is known of the next request stood at the beginning of one that was sent: a new session in the
    place of the one before. The whole history of another one is never taken for known."""
    system = [{"role": "system", "content": request.system}] if request.system else []
    return not request.messages and sent.get("tools", []) == tools and sent["messages"][: len(system)] == system


_RawStream = openai.AsyncStream[object]


def _written(chunk: ModelChunk) -> str:
    match chunk:
        case TextChunk() | ThinkingChunk():
            return chunk.text
        case CallChunk():
            return chunk.arguments
        case _:
            return ""


def _whole(event: str) -> object:
    """The last event of a stream that just ended; None where it was cut short."""
    try:
        return json.loads(event)
    except (ValueError, RecursionError):
        return None
