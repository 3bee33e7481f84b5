"""Servers behind a URL: the HTTP client, and what HTTP itself said about a request. The library turns every bad status
into the same few words; users need the status and what the server wrote."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agent.config.foreign import is_local, mapping
from agent.config.mcp import Entry, Launch
from agent.tools.mcp.lenient import Streams

CONNECT = 10.0  # seconds
READ_BODY = 2.0  # seconds for the body of an error
BODY = 300  # characters of it that are told
KNOWN = 200  # requests whose fault is kept until somebody asks


class Web:
    """What HTTP said, by request."""

    def __init__(self) -> None:
        self._faults: OrderedDict[Any, tuple[str, int]] = OrderedDict()
        self.status: int | None = None  # of the last bad answer
        self.words = ""

    def explain(self, request_id: Any) -> tuple[str, int] | None:
        return self._faults.pop(request_id, None)

    async def look(self, response: httpx2.Response) -> None:
        """Called for every response before anybody reads it."""
        if response.request.method != "POST":
            return
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        fine = kind in ("application/json", "text/event-stream") or response.status_code in (202, 204)
        if response.status_code < 400 and fine:
            self.status, self.words = None, ""
            return
        if 300 <= response.status_code < 400:
            return
        body = await _body(response, whole=kind == "application/json")
        self.status, self.words = response.status_code, _words(response, kind, body)
        self._faults[_id_of(response.request)] = (self.words, self.status)
        while len(self._faults) > KNOWN:
            self._faults.popitem(last=False)

    def client(self, launch: Launch, auth: httpx2.Auth | None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers=dict(launch.headers),
            auth=auth,
            timeout=httpx2.Timeout(CONNECT, read=None),  # a call's own limit counts, and streams may be silent for long
            trust_env=not is_local(launch.url),
            event_hooks={"response": [self.look]},
        )


@asynccontextmanager
async def web(entry: Entry, launch: Launch, facts: Web, auth: httpx2.Auth | None) -> AsyncGenerator[Streams, None]:
    if entry.transport == "sse":

        def make(
            headers: Mapping[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            return facts.client(launch, auth)

        async with sse_client(launch.url, httpx_client_factory=make, auth=auth) as streams:
            yield streams
        return
    async with facts.client(launch, auth) as client, streamable_http_client(launch.url, http_client=client) as streams:
        yield streams


async def _body(response: httpx2.Response, *, whole: bool) -> str:
    """`whole`: the library will read it again."""
    read = bytearray()
    with contextlib.suppress(TimeoutError, httpx2.HTTPError, httpx2.StreamError):
        async with asyncio.timeout(READ_BODY):
            if whole:
                return (await response.aread()).decode("utf-8", "replace")
            async for piece in response.aiter_bytes():
                read += piece
                if len(read) > 20 * BODY:
                    break
    return read.decode("utf-8", "replace")


def _words(response: httpx2.Response, kind: str, body: str) -> str:
    said = _said(kind, body)
    status, reason = response.status_code, response.reason_phrase
    if status == 401:
        return "it needs a token or a login (HTTP 401)"
    if status == 429:
        wait = response.headers.get("retry-after", "")
        return f"too many requests (HTTP 429){f'; it asks to wait {wait[:40]} s' if wait else ''}"
    if status < 400:
        return f"it answered with {kind or 'no content type'} instead of JSON{f': {said}' if said else ''}"
    return f"HTTP {status} {reason}{f': {said}' if said else ''}".strip()


def _said(kind: str, body: str) -> str:
    if kind == "application/json":
        with contextlib.suppress(ValueError, RecursionError):
            data = mapping(json.loads(body))
            error = data.get("error")
            body = str(mapping(error).get("message") or error or data.get("message") or body)
    elif "html" in kind:
        title = re.search(r"<title[^>]*>(.*?)</title>", body, re.S | re.I)
        body = title[1] if title else re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", body, flags=re.S | re.I)
    text = " ".join(body.split())
    return text if len(text) <= BODY else f"{text[:BODY]} …"


def _id_of(request: httpx2.Request) -> Any:
    try:
        return mapping(json.loads(request.content)).get("id")
    except (ValueError, RecursionError, httpx2.StreamError):
        return None
