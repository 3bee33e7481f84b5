"""Foreign exceptions of a model request to ours, once, at the edge."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx2
import openai

from agent.config.foreign import mapping
from agent.errors import BadReply, ContextOverflow, ModelFault, Refused, ServerUnavailable, Stalled, ToolsRefused

BODY_LIMIT = 400  # characters of a server's own words that are shown
FOREIGN = (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ValueError, RecursionError)


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
    return BadReply("The model server sent something that is not a chat stream. Check that the address is right.")


def lost(*, started: bool) -> Stalled:
    """Nothing comes, and the server says that it works on nothing."""
    where = "in the middle of the reply" if started else "before the reply began"
    fault = Stalled(f"The model server lost the request {where}: it is idle and sends nothing. Send again.")
    fault.retryable = True
    return fault


def fault_in_stream(data: Any) -> ModelFault | None:
    """The error object in a chunk of a stream that began well."""
    error = mapping(data).get("error")
    return _of_words(mapping(error), _words_in(error), None) if error else None


def fault_of_body(body: str) -> ModelFault:
    """For status 200 and a `body` without a single event."""
    try:
        if fault := fault_in_stream(json.loads(body)):
            return fault
    except (ValueError, RecursionError):
        pass
    if not body.strip():
        return BadReply("The model server closed the connection without a word. Send again.")
    return BadReply(f"The model server sent no chat stream but: {_plain(body)} — check that the address is right.")


def _of_status(error: openai.APIStatusError) -> ModelFault:
    text = error.response.text if error.response.is_closed else ""
    try:
        body = mapping(json.loads(text))
    except (ValueError, RecursionError):
        return _of_words({}, _plain(text), error.status_code)
    inner = body.get("error") or body
    return _of_words(mapping(inner), _words_in(inner) or _plain(text), error.status_code)


def _words_in(error: Any) -> str:
    """`message` of a llama-server, `detail` of other servers, or the error where it is a text itself."""
    if isinstance(error, str):
        return error
    words = mapping(error).get("message") or mapping(error).get("detail") or ""
    return words if isinstance(words, str) else json.dumps(words, ensure_ascii=False)


def _of_words(data: Mapping[str, Any], words: str, status: int | None) -> ModelFault:
    kind, code = data.get("type"), data.get("code", status)
    words = " ".join(words.split())
    if kind == "exceed_context_size_error" or "exceeds the available context size" in words:
        prompt, n_ctx = data.get("n_prompt_tokens"), data.get("n_ctx")
        if not (isinstance(prompt, int) and isinstance(n_ctx, int)):
            found = re.search(r"\((\d+) tokens\).*?\((\d+) tokens\)", words)
            prompt, n_ctx = (int(found[1]), int(found[2])) if found else (None, None)
        sizes = f": {prompt} tokens, but the context holds {n_ctx}" if prompt and n_ctx else ""
        return ContextOverflow(f"The conversation no longer fits{sizes}. Start a new session.", prompt, n_ctx)
    if other := re.search(r"maximum context length is (\d+) tokens.*?(\d+) tokens", words):  # vLLM, SGLang
        n_ctx, prompt = int(other[1]), int(other[2])
        sizes = f"{prompt} tokens, but the context holds {n_ctx}"
        return ContextOverflow(f"The conversation no longer fits: {sizes}. Start a new session.", prompt, n_ctx)
    if "Context size has been exceeded" in words:
        return ContextOverflow("The context filled up in the middle of the reply. Start a new session.")
    if status == 401 or code == 401:
        return Refused(f"The model server refused the key: {words}. Set DFLASH_SERVER_KEY.", 401)
    if status == 503 or code == 503:
        unavailable = ServerUnavailable(
            f"The model server is not ready: {words or 'status 503'}. Wait a moment, then send again."
        )
        unavailable.busy = True
        return unavailable
    if (status == 400 and re.search(r"schema|grammar", words, re.I)) or "JSON schema error" in words:
        return ToolsRefused(f"The model server cannot use the list of tools: {words}", status)
    said = words or "no reason given"
    fault = Refused(f"The model server refused the request ({f'status {status}: ' if status else ''}{said}).", status)
    # The server could not read what the model wrote: with other dice it mostly can. 429 asks for a later try by itself.
    fault.retryable = status == 429 or "does not match the expected" in words
    return fault


def _plain(words: str) -> str:
    """One line, without mark-up, bounded."""
    text = (
        re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", words, flags=re.S | re.I) if "<html" in words.lower() else words
    )
    text = " ".join(text.split())
    return text if len(text) <= BODY_LIMIT else text[:BODY_LIMIT] + " …"
