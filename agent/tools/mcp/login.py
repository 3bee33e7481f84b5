"""A login at an MCP server in the browser (OAuth): tokens in a file of the user's alone, the way back through a port of
this machine. Nobody is sent anywhere unasked: without a stored login a server only says that it wants one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from agent.config.jsonfile import read_object, write_json
from agent.config.mcp import Entry, Launch
from agent.tools.mcp.faults import Fault

FIXED_PORT = 33418  # of the way back for a client that was registered beforehand: its address had to be told
REQUEST = 16_000  # bytes of the browser's request that are read
PAGE = "<!doctype html><title>dflash-agent</title><p>{}</p><p>You can close this window.</p>"


class TokenFile:
    """Tokens and the registration of one server. Readable by this user alone."""

    def __init__(self, folder: Path, url: str) -> None:
        self._file = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:24]}.json"

    @property
    def known(self) -> bool:
        return bool(read_object(self._file).get("tokens"))

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)

    async def get_tokens(self) -> OAuthToken | None:
        with contextlib.suppress(ValidationError):
            return OAuthToken.model_validate(read_object(self._file).get("tokens"))
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._write("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        with contextlib.suppress(ValidationError):
            return OAuthClientInformationFull.model_validate(read_object(self._file).get("client"))
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    def _write(self, key: str, value: object) -> None:
        """Without a writable place the login holds for this run."""
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._file, {**read_object(self._file), key: value})


class WayBack:
    """Where the browser comes back to: a port of this machine, open while a login is under way. A server may want a
    second one, for more than the first gave; the port stays the same."""

    def __init__(self) -> None:
        self._came: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}/callback"

    async def open(self, port: int = 0) -> None:
        """0: any port, or the one of before. Raises OSError when it is taken."""
        if self._server is not None:
            return
        self._came = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", port or self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def wait(self) -> AuthorizationCodeResult:
        try:
            return await self._came
        finally:
            self.close()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            line = (await reader.readuntil(b"\r\n"))[:REQUEST].decode("ascii", "replace")
            words = self._take(line.split(" ")[1] if line.count(" ") > 1 else "")
            body = PAGE.format(words).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()

    def _take(self, target: str) -> str:
        given = {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}
        if self._came.done() or not ({"code", "error"} & set(given)):
            return "Nothing was waiting for this."
        if "code" in given:
            self._came.set_result(AuthorizationCodeResult.model_validate(given))
            return "Logged in."
        said = given.get("error_description") or given["error"]
        self._came.set_exception(Fault("login", f"the login was refused: {said[:200]}"))
        return "The login was refused."


async def auth_of(
    entry: Entry, launch: Launch, folder: Path, open_url: Callable[[str], None] | None
) -> OAuthClientProvider | None:
    """What signs the requests of a server. `open_url`: the user has asked for a login; None: a stored one is used, and
    where there is none, none. A server with an Authorization of its own in its entry needs nothing more."""
    store = TokenFile(folder, launch.url)
    if any(name.lower() == "authorization" for name in launch.headers) or (open_url is None and not store.known):
        return None
    back = WayBack()
    if open_url is not None:
        store.forget()
        await back.open(FIXED_PORT if entry.client_id else 0)

    async def lead(url: str) -> None:
        if open_url is None:
            raise Fault("login", "its login has expired", 401)
        await back.open()
        open_url(url)

    redirect = AnyUrl(back.address)
    if entry.client_id:
        secret = launch.client_secret or None
        method = "client_secret_basic" if secret else "none"
        await store.set_client_info(
            OAuthClientInformationFull(
                client_id=entry.client_id,
                client_secret=secret,
                redirect_uris=[redirect],
                token_endpoint_auth_method=method,
            )
        )
    about = OAuthClientMetadata(client_name="dflash-agent", redirect_uris=[redirect])
    return OAuthClientProvider(launch.url, about, store, lead, back.wait)
