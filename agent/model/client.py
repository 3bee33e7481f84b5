"""The only importer of openai. Streams one chat reply after another; keeps no conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from agent.events import Endpoint
from agent.model.faults import FOREIGN, fault_of, fault_of_body
from agent.model.wire import Reader, request_body
from agent.protocols import ModelChunk, ModelRequest

# llama-server sends a comment every 30 s while it works and a chunk for every batch of prompt it has read, so two
# minutes without a byte mean that it is stuck, not slow.
READ_SILENCE = 120.0
CONNECT = 5.0  # seconds
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class OpenAIModel:
    """`ensure_ready` heals a server that has died. `extra` goes into each request body as it is."""

    def __init__(self, ensure_ready: Callable[[], Awaitable[Endpoint]], extra: Mapping[str, Any] | None = None) -> None:
        self._ensure_ready = ensure_ready
        self._extra = dict(extra or {})
        self._client: openai.AsyncOpenAI | None = None
        self._endpoint: Endpoint | None = None
        self._tools: tuple[str, list[Any]] = ("", [])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Raises a ModelFault, or what `ensure_ready` raises. Closing the generator closes the connection."""
        endpoint = await self._ensure_ready()
        client = await self._client_for(endpoint)
        if request.tools != self._tools[0]:
            self._tools = (request.tools, json.loads(request.tools) if request.tools else [])
        body = request_body(request, endpoint.model, self._tools[1], self._extra)
        reader, started = Reader(), False
        stream: openai.AsyncStream[object] | None = None
        try:
            # The typed call would build a pydantic object for each token and trip over unusual fields; this is the
            # same request and the same stream, in plain dicts.
            stream = await client.post(
                "/chat/completions", body=body, cast_to=object, stream=True, stream_cls=_RawStream
            )
            if "json" in stream.response.headers.get("content-type", ""):  # a plain answer, no stream: an error
                raise fault_of_body(await stream.response.aread())
            async for data in stream:
                for chunk in reader.read(data):
                    started = True
                    yield chunk
        except FOREIGN as error:
            raise fault_of(error, started=started, silence=READ_SILENCE) from error
        finally:
            if stream is not None:
                await stream.close()
        yield reader.finish()

    async def _client_for(self, endpoint: Endpoint) -> openai.AsyncOpenAI:
        if self._client is None or endpoint != self._endpoint:
            if self._client is not None:
                await self._client.close()
            local = urlsplit(endpoint.base_url).hostname in LOOPBACK
            self._client = openai.AsyncOpenAI(
                api_key=endpoint.api_key,
                base_url=f"{endpoint.base_url}/v1",
                organization="",
                project="",
                max_retries=0,  # a retry would repeat a whole generation; the core decides
                http_client=httpx2.AsyncClient(
                    trust_env=not local,  # a proxy from the environment would capture loopback requests too
                    timeout=httpx2.Timeout(None, connect=CONNECT, read=READ_SILENCE),
                ),
            )
            self._endpoint = endpoint
        return self._client


_RawStream = openai.AsyncStream[object]
