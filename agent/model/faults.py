"""Foreign exceptions of a model request to ours, once, at the edge."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

import httpx2
import openai

from agent.errors import BadReply, ContextOverflow, ModelFault, Refused, ServerUnavailable, Stalled

BODY_LIMIT = 400  # characters of a server's own words that are shown
FOREIGN = (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ValueError)


def fault_of(error: Exception, *, started: bool, silence: float) -> ModelFault:
    """`started`: some of the reply had arrived. `silence`: the read time-out in seconds."""
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        if isinstance(error, httpx2.ConnectTimeout) or isinstance(error.__cause__, httpx2.ConnectTimeout):
            return ServerUnavailable("The model server does not answer. Check that it runs, then send again.")
        return Stalled(f"Nothing came from the model server for {silence:.0f} s. Send again, or restart the server.")
    if isinstance(error, openai.APIStatusError):
        return _of_status(error)
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError | httpx2.StreamError):
        if started:
            return BadReply("The connection to the model server broke off in the middle of the reply. Send again.")
        return ServerUnavailable(
            "The model server cannot be reached (connection refused or cut). Check that it runs, then send again."
        )
    if isinstance(error, openai.APIError):  # an error object inside a stream that began well
        return _of_words(error.body, error.message, None)
    return BadReply("The model server sent something that is not a chat stream. Check that the address is right.")


def fault_of_body(raw: bytes) -> ModelFault:
    """Of an answer that says 200 and then is one JSON object instead of a stream."""
    try:
        body: Any = json.loads(raw)
    except ValueError:
        body = None
    inner: Any = cast("Mapping[str, Any]", body).get("error", body) if isinstance(body, Mapping) else None
    words: Any = cast("Mapping[str, Any]", inner).get("message") if isinstance(inner, Mapping) else inner
    return _of_words(inner, str(words or raw.decode("utf-8", "replace")), None)


def _of_status(error: openai.APIStatusError) -> ModelFault:
    body: Any = error.body
    if isinstance(body, Mapping):
        mapping = cast("Mapping[str, Any]", body)
        inner = mapping.get("error", mapping)
        words = inner.get("message") if isinstance(inner, Mapping) else inner  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return _of_words(inner, str(words or ""), error.status_code)  # pyright: ignore[reportUnknownArgumentType]
    return _of_words(None, error.response.text if error.response.is_closed else "", error.status_code)


def _of_words(body: Any, words: str, status: int | None) -> ModelFault:
    data: Mapping[str, Any] = cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else {}
    kind, code = data.get("type"), data.get("code", status)
    words = _plain(words)
    if kind == "exceed_context_size_error" or "exceeds the available context size" in words:
        prompt, n_ctx = data.get("n_prompt_tokens"), data.get("n_ctx")
        if not (isinstance(prompt, int) and isinstance(n_ctx, int)):
            found = re.search(r"\((\d+) tokens\).*?\((\d+) tokens\)", words)
            prompt, n_ctx = (int(found[1]), int(found[2])) if found else (None, None)
        sizes = f": {prompt} tokens, but the context holds {n_ctx}" if prompt and n_ctx else ""
        return ContextOverflow(f"The conversation no longer fits{sizes}. Start a new session.", prompt, n_ctx)
    if "Context size has been exceeded" in words:
        return ContextOverflow("The context filled up in the middle of the reply. Start a new session.")
    if status == 401 or code == 401:
        return Refused(f"The model server refused the key: {words}. Set DFLASH_SERVER_KEY.", 401)
    if status == 503 or code == 503:
        return ServerUnavailable(
            f"The model server is not ready: {words or 'status 503'}. Wait a moment, then send again."
        )
    said = words or "no reason given"
    return Refused(f"The model server refused the request ({f'status {status}: ' if status else ''}{said}).", status)


def _plain(words: str) -> str:
    """One line, without mark-up, bounded."""
    text = (
        re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", words, flags=re.S | re.I) if "<html" in words.lower() else words
    )
    text = " ".join(text.split())
    return text if len(text) <= BODY_LIMIT else text[:BODY_LIMIT] + " …"
