"""Takes what servers really send. The library refuses a whole answer for one odd entry: a tool without a schema would
hide all tools of its server, an unknown kind of content would lose the rest of a result. So answers are mended on
their way in, entry by entry; and errors of HTTP get the words that the library leaves out."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self, cast

import mcp_types as types
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from pydantic import BaseModel, TypeAdapter, ValidationError

from agent.config.foreign import mapping

EMPTY_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}
_CONTENT: TypeAdapter[Any] = TypeAdapter(types.ContentBlock)
_CONTENTS: TypeAdapter[Any] = TypeAdapter(types.TextResourceContents | types.BlobResourceContents)
_LISTS: Mapping[str, tuple[str, type[BaseModel]]] = {
    "prompts/list": ("prompts", types.Prompt),
    "resources/list": ("resources", types.Resource),
    "resources/templates/list": ("resourceTemplates", types.ResourceTemplate),
}

Streams = tuple[Any, Any]  # what the library's transports yield: reading, writing
# what an error of a request really was: (request id) -> words and HTTP status, or None
Explain = Callable[[Any], tuple[str, int] | None]


@asynccontextmanager
async def lenient(
    transport: AbstractAsyncContextManager[Streams], explain: Explain, ended: Callable[[], None]
) -> AsyncGenerator[Streams, None]:
    """The same transport with mended answers. `explain` is asked about each error; `ended` hears that nothing more can
    come."""
    async with transport as (read, write):
        methods: dict[Any, str] = {}
        yield _Reading(read, methods, explain, ended), _Writing(write, methods)


class _Wrapped:
    """All that is not said otherwise is the stream's own."""

    _stream: Any

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Writing(_Wrapped):
    """Remembers what each request asked for."""

    def __init__(self, stream: Any, methods: dict[Any, str]) -> None:
        self._stream = stream
        self._methods = methods

    async def send(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self._methods[item.message.id] = item.message.method
        await self._stream.send(item)


class _Reading(_Wrapped):
    def __init__(self, stream: Any, methods: dict[Any, str], explain: Explain, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._methods = methods
        self._explain = explain
        self._ended = ended

    async def receive(self) -> Any:
        return self._mended(await self._stream.receive())

    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._mended(await self._stream.__anext__())
        except StopAsyncIteration:
            self._ended()
            raise

    def _mended(self, item: Any) -> Any:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse):
            method = self._methods.pop(message.id, "")
            message.result = mended(method, message.result)
        elif isinstance(message, JSONRPCError) and message.id is not None:
            self._methods.pop(message.id, None)
            if found := self._explain(message.id):
                words, status = found
                data = dict(mapping(message.error.data)) | {"http": status}
                message.error = types.ErrorData(code=message.error.code, message=words, data=data)
        return item


def mended(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """An answer to `method` in which each entry fits the protocol; what cannot be made to fit is left out."""
    if method == "tools/list":
        return result | {"tools": [t for raw in _items(result.get("tools")) if (t := _tool(raw)) is not None]}
    if method == "tools/call" and result.get("resultType") in (None, "complete"):
        return _call_result(result)
    if method == "prompts/get":
        messages = [_message(raw) for raw in _items(result.get("messages"))]
        return result | {"messages": [m for m in messages if m is not None]}
    if method == "resources/read":
        return result | {"contents": [c for c in _items(result.get("contents")) if _fits(_CONTENTS, c)]}
    if found := _LISTS.get(method):
        key, model = found
        return result | {key: [raw for raw in _items(result.get(key)) if _fits(TypeAdapter(model), raw)]}
    return result


def _tool(raw: Any) -> dict[str, Any] | None:
    """Output schemas go: the library would refuse a whole result that does not fit its own."""
    given = mapping(raw)
    name, schema = given.get("name"), given.get("inputSchema")
    if not isinstance(name, str) or not name:
        return None
    tool = {k: v for k, v in given.items() if k != "outputSchema" and v is not None}
    fits = isinstance(schema, dict) and cast("dict[str, Any]", schema).get("type", "object") == "object"
    tool["inputSchema"] = {"type": "object"} | cast("dict[str, Any]", schema) if fits else dict(EMPTY_SCHEMA)
    if _fits(TypeAdapter(types.Tool), tool):
        return tool
    description = given.get("description")
    about = {"description": description} if isinstance(description, str) else {}
    return {"name": name, "inputSchema": tool["inputSchema"], **about}


def _call_result(result: dict[str, Any]) -> dict[str, Any]:
    mended = result | {"content": [_block(raw) for raw in _items(result.get("content"))]}
    if "isError" in mended and not isinstance(mended["isError"], bool):
        mended["isError"] = bool(mended["isError"])
    return mended


def _block(raw: Any) -> dict[str, Any]:
    if _fits(_CONTENT, raw):
        return raw
    kind = mapping(raw).get("type")
    return {"type": "text", "text": f"[content of the kind {str(kind)[:40]!r}, which cannot be shown]"}


def _message(raw: Any) -> dict[str, Any] | None:
    given = mapping(raw)
    if given.get("role") not in ("user", "assistant"):
        return None
    return {"role": given["role"], "content": _block(given.get("content"))}


def _fits(adapter: TypeAdapter[Any], value: Any) -> bool:
    with contextlib.suppress(ValidationError):
        adapter.validate_python(value, by_name=False)
        return True
    return False


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
