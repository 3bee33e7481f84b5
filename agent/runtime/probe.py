"""Asks a server what it is. Never sends a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx2

from agent.config.foreign import first, mapping
from agent.events import Endpoint
from agent.runtime.prefix import look

PROBE_TIMEOUT = 5.0  # seconds; one page of JSON from loopback takes milliseconds
# Seconds for what we can do without: /slots waits for the engine's main loop, which may be deep in a long prompt.
OPTIONAL_TIMEOUT = 1.5


class NotAModelServer(Exception):
    """Somebody answers, but not as a model server does; the message says how."""


def open_client(base_url: str, key: str, *, local: bool) -> httpx2.AsyncClient:
    """A proxy from the environment would capture loopback requests too, hence `local`."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.AsyncClient(base_url=base_url, headers=headers, timeout=PROBE_TIMEOUT, trust_env=not local)


async def health(client: httpx2.AsyncClient) -> int:
    """Status of /health. Raises httpx2.TransportError: ConnectError when nobody listens (yet)."""
    return (await client.get("/health")).status_code


async def answers(client: httpx2.AsyncClient, patience: float) -> bool:
    """Whether the engine's main loop turns: /slots is answered from there within `patience` seconds, while /health is
    not, and says ok even of an engine that hangs."""
    try:
        return (await client.get("/slots", timeout=patience)).status_code < 500
    except httpx2.TransportError:
        return False


async def is_ours(client: httpx2.AsyncClient, model: str) -> bool:
    """Whether a llama-server answers that wants this launch's key and runs this model file. Only then may a prompt go
    there: between our look for a free port and the engine's bind, another server may have taken it."""
    stranger = await client.get("/props", headers={"Authorization": "Bearer not-the-key"})
    if stranger.status_code != 401:
        return False
    answer = await client.get("/props")
    return answer.status_code == 200 and _json(answer).get("model_path") == model


async def inspect(client: httpx2.AsyncClient, endpoint: Endpoint) -> Endpoint:
    """`endpoint` with what the server says of itself. /props and /slots exist on a llama-server only; without them the
    figures stay unknown. Raises NotAModelServer, httpx2.TransportError."""
    answer = await client.get("/v1/models")
    if answer.status_code == 401:
        raise NotAModelServer("it refuses our key (401); set DFLASH_SERVER_KEY")
    models = _json(answer)
    data: Any = models.get("data") if models else None
    if answer.status_code != 200 or not isinstance(data, list):
        raise NotAModelServer(f"it is not a model server (/v1/models gives status {answer.status_code})")
    model = first(data)
    props = await _optional(client, "/props")
    slots = await _optional(client, "/slots")
    slot = first(slots)
    settings = mapping(mapping(props).get("default_generation_settings"))
    n_ctx = settings.get("n_ctx") or slot.get("n_ctx") or mapping(model.get("meta")).get("n_ctx")
    n_ctx = n_ctx or model.get("max_model_len")  # vLLM
    speculative = slot.get("speculative")
    return replace(
        endpoint,
        model=endpoint.model or str(model.get("id") or "default"),
        n_ctx=n_ctx if isinstance(n_ctx, int) and n_ctx > 0 else None,
        speculative=speculative if isinstance(speculative, bool) else None,
        engine=str(mapping(props).get("build_info") or ""),
        rewrites=await look(client) if mapping(props).get("chat_template") else None,
    )


async def _optional(client: httpx2.AsyncClient, path: str) -> Any:
    try:
        answer = await client.get(path, timeout=OPTIONAL_TIMEOUT)
        return answer.json() if answer.status_code == 200 else None
    except (ValueError, httpx2.TransportError):
        return None


def _json(answer: httpx2.Response) -> Mapping[str, Any]:
    try:
        return mapping(answer.json())
    except ValueError:
        return {}
