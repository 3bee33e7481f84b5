"""A model server that somebody else runs. Never started, never stopped by us."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import httpx2

from agent.config.foreign import is_local
from agent.errors import ConfigError, ServerUnavailable
from agent.events import Endpoint, ServerState
from agent.progress import Phase
from agent.runtime.metrics import Totals, scrape
from agent.runtime.probe import PROBE_TIMEOUT, NotAModelServer, health, inspect, open_client

LOADING_POLL = 0.5  # seconds
RETURN_LIMIT = 30.0  # seconds; one that has answered before may be in the middle of a restart
FRESH = 1.0  # seconds in which a lasting failure is not looked for again: one step asks more than once
LOADING_LIMIT = 900.0  # seconds; 18 GB from a slow network disk take 6 minutes, a 503 for longer is no loading


class Attached:
    """`url` with or without scheme and /v1; raises ConfigError when it cannot be one. The key comes from
    DFLASH_SERVER_KEY. `ctx`: the user wants no more context than this; the server's own figure holds if smaller."""

    def __init__(
        self, url: str, env: Mapping[str, str], publish: Callable[[ServerState], None], ctx: int | None = None
    ) -> None:
        self._url = normal_url(url)
        self._key = env.get("DFLASH_SERVER_KEY") or "none"
        if not (self._key.isascii() and self._key.isprintable()):
            raise ConfigError("DFLASH_SERVER_KEY holds characters that no HTTP header can carry. Copy it again.")
        self._publish = publish
        self._ctx = ctx
        self._state = ServerState("stopped")
        self._met = False  # it has answered in this run
        self._counts = True  # until it is known that it does not
        self._looking: asyncio.Task[Endpoint] | None = None
        self._failed = (-FRESH, "")  # when, and why

    @property
    def state(self) -> ServerState:
        return self._state

    def suspect(self, why: str) -> None:
        """It may have been started anew, with another model: asked again before the next request."""
        self._state = replace(self._state, endpoint=None)

    async def ensure_ready(self) -> Endpoint:
        """Raises ServerUnavailable. A server that is still loading is waited for. All who ask meanwhile share one look
        and its answer; one who is cancelled leaves it running."""
        if self._state.endpoint is not None:
            return self._state.endpoint
        if self._looking is None or self._looking.done():
            if asyncio.get_running_loop().time() - self._failed[0] < FRESH:
                raise _lasting(self._failed[1])
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="server-look")
            # a failure is published; nobody may be left to await it
            self._looking.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        looking = self._looking
        try:
            return await asyncio.shield(looking)
        except asyncio.CancelledError:
            if looking.cancelled():  # by `stop`, not by our own caller
                raise ServerUnavailable("The connection to the server was given up.") from None
            raise

    async def _look(self) -> Endpoint:
        self._become(ServerState("starting", Phase("look", f"looking at {self._url}")))
        try:
            endpoint = await self._returning() if self._met else await self._probe()
        except ServerUnavailable as error:
            self._become(ServerState("failed", why=str(error)))
            if not error.retryable:
                self._failed = (asyncio.get_running_loop().time(), str(error))
            raise
        self._met = self._counts = True
        sizes = [n for n in (self._ctx, endpoint.n_ctx) if n]
        endpoint = replace(endpoint, n_ctx=min(sizes, default=None))
        self._become(ServerState("ready", endpoint=endpoint))
        return endpoint

    async def totals(self) -> Totals | None:
        """What a server has counted that says nothing of drafting in its replies; None where there is nothing to ask.
        Raises ServerUnavailable."""
        if (await self.ensure_ready()).engine or not self._counts:
            return None
        async with open_client(self._url, self._key, local=is_local(self._url)) as client:
            totals = await scrape(client)
        self._counts = totals.drafts
        return totals if totals.drafts else None

    async def stop(self) -> None:
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait([self._looking])
        self._become(ServerState("stopped"))

    async def _returning(self) -> Endpoint:
        """One that has answered before is waited for: whoever runs it may be starting it anew."""
        until = asyncio.get_running_loop().time() + RETURN_LIMIT
        while True:
            try:
                return await self._probe()
            except ServerUnavailable as error:
                if not error.retryable or asyncio.get_running_loop().time() > until:
                    raise _lasting(str(error)) from error
            self._become(ServerState("starting", Phase("look", "waiting for the server to come back")))
            await asyncio.sleep(LOADING_POLL)

    async def _probe(self) -> Endpoint:
        async with open_client(self._url, self._key, local=is_local(self._url)) as client:
            try:
                for _ in range(int(LOADING_LIMIT / LOADING_POLL)):
                    if await asyncio.wait_for(health(client), PROBE_TIMEOUT) != 503:
                        break
                    self._become(ServerState("starting", Phase("load", "loading the model")))
                    await asyncio.sleep(LOADING_POLL)
                else:
                    raise ServerUnavailable(f"{self._url} has been busy loading (503) for too long. Look at its log.")
                known = Endpoint(self._url, self._key, "", attached=True)
                return await asyncio.wait_for(inspect(client, known), PROBE_TIMEOUT)
            except NotAModelServer as error:
                raise _lasting(f"{self._url} answers, but {error}. Check the address.") from error
            except httpx2.ConnectError as error:
                raise ServerUnavailable(
                    f"Nobody answers at {self._url}. Start the server, or check the address."
                ) from error
            except (TimeoutError, httpx2.TimeoutException) as error:
                raise _lasting(f"{self._url} does not answer in {PROBE_TIMEOUT:.0f} s. Check the address.") from error
            except httpx2.HTTPError as error:
                raise ServerUnavailable(f"{self._url} does not speak HTTP. Check the address.") from error

    def _become(self, state: ServerState) -> None:
        if state != self._state:
            self._state = state
            self._publish(state)


def _lasting(message: str) -> ServerUnavailable:
    """What the same question a moment later would not mend."""
    error = ServerUnavailable(message)
    error.retryable = False
    return error


def normal_url(text: str) -> str:
    """`http://host:port`, without a trailing /v1. Raises ConfigError."""
    url = text.strip() if "://" in text else f"http://{text.strip()}"
    try:
        parts = urlsplit(url)
        port = parts.port
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL) as error:
        raise ConfigError(f"--server {text}: {error}. Write it as http://127.0.0.1:8080.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.username or parts.query:
        raise ConfigError(f"--server {text} is not the address of a server. Write it as http://127.0.0.1:8080.")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
