"""The exceptions of the mcp library and of HTTP to Fault, once, at the edge."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import anyio
import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.subscriptions import SubscriptionLost
from pydantic import ValidationError

from agent.config.foreign import mapping
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.host import Birth
from agent.tools.mcp.stdio import Child
from agent.tools.mcp.web import Web

FOREIGN = (
    MCPError,
    ValidationError,
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    OSError,
    ValueError,
    RuntimeError,
    SubscriptionLost,
    OAuthFlowError,
)


@contextlib.contextmanager
def as_fault(facts: Web) -> Generator[None, None, None]:
    try:
        yield
    except FOREIGN as error:
        raise fault_of(error, facts) from error
    except BaseExceptionGroup as group:
        raise fault_of(_innermost(group), facts) from group


@contextlib.contextmanager
def told(birth: Birth, child: Child, facts: Web) -> Generator[None, None, None]:
    """Around a whole connection: what ends it becomes a Fault, and `birth` keeps how the child ended."""
    try:
        yield
    except FOREIGN as error:
        raise fault_of(error, facts) from error
    except BaseExceptionGroup as group:
        inner = _innermost(group)
        if isinstance(inner, Fault):
            raise inner from group
        raise fault_of(inner, facts) from group
    finally:
        birth.status = child.status


@asynccontextmanager
async def in_time(seconds: float, birth: Birth) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Fault("timeout", f"it was not ready within {seconds:g} s ({birth.phase})") from error


def fault_of(error: BaseException, facts: Web) -> Fault:
    if isinstance(error, Fault):
        return error
    if isinstance(error, MCPError):
        status = mapping(error.data).get("http")
        words = " ".join(error.message.split()) or f"error {error.code}"
        if status == 401 or (status is None and facts.status == 401):
            return Fault("login", facts.words, 401)
        if status == 404 or error.message == "Session terminated":
            return Fault("session", "the server has forgotten the session (HTTP 404)", 404)
        if error.code == types.CONNECTION_CLOSED:
            if words == "Connection closed":
                return Fault("lost", facts.words or "the connection was closed")
            return Fault("protocol", f"its answer broke off ({words})")
        return Fault("refused", words, status if isinstance(status, int) else None)
    if isinstance(error, OAuthFlowError):
        return Fault("login", f"the login failed: {' '.join(str(error).split())[:300]}")
    if isinstance(error, ValidationError):
        place = ".".join(map(str, error.errors()[0]["loc"])) if error.errors() else ""
        return Fault("protocol", f"its answer does not fit the protocol{f' ({place})' if place else ''}")
    if isinstance(error, FileNotFoundError):
        return Fault("start", f"there is no program {error.filename!r}" if error.filename else "the program is missing")
    if isinstance(error, httpx2.HTTPStatusError):
        kind = "login" if error.response.status_code == 401 else "refused"
        return Fault(kind, facts.words or f"HTTP {error.response.status_code}", error.response.status_code)
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return Fault("lost", "nothing answers at this address (connection refused or timed out)")
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError | anyio.ClosedResourceError | anyio.BrokenResourceError):
        return Fault("lost", "the connection broke off before an answer came")
    if isinstance(error, OSError):
        return Fault("start", f"it could not be started: {error.strerror or error}")
    return Fault("protocol", " ".join(str(error).split())[:300] or type(error).__name__)


def _innermost(error: BaseException) -> BaseException:
    """Of a group, the one that says most: not a cancellation, and not the echo of another."""
    while isinstance(error, BaseExceptionGroup):
        members: list[BaseException] = list(error.exceptions)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        members.sort(key=lambda e: isinstance(e, MCPError | asyncio.CancelledError))
        error = members[0]
    return error
