"""A server as a child process. The library's own way to start one tells neither the exit status nor what was said on
stderr, and writes that to the screen; this one knows both, and ends what the child started with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from agent.config.mcp import Launch
from agent.tools.limits import plain
from agent.tools.mcp.lenient import Streams

READ_SIZE = 65_536
LONGEST_MESSAGE = 64_000_000  # bytes of one line; a server that sends more is beyond mending
LAST_LINES = 20
LINE = 400  # characters of one of them
LOG_BYTES = 2_000_000  # of stderr that are kept for one run of a server
STDIN_GRACE = 0.8  # seconds after its stdin was closed
TERM_GRACE = 1.0  # seconds between TERM and KILL; two windows' worth of servers are gone well within five seconds
KILLED = 1.0  # seconds in which KILL has to work
POLL = 0.01
INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
# keeps proxies and package mirrors of the user working for npx, uvx and pip; none of them holds a key of the user
INHERITED_TOO = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "XDG_CACHE_HOME")


class Words:
    """The last lines of a server's stderr, and all of them in a file up to a size."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.lines: deque[str] = deque(maxlen=LAST_LINES)
        self._rest = b""
        self._size = 0
        self._file: BinaryIO | None = None

    def start(self) -> None:
        self.lines.clear()
        self.close()
        self._rest, self._size = b"", 0
        with contextlib.suppress(OSError):
            self.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._file = os.fdopen(descriptor, "wb", 0)

    def add(self, data: bytes) -> None:
        self._size += len(data)
        if self._file is not None and self._size <= LOG_BYTES:
            with contextlib.suppress(OSError):
                self._file.write(data)
        *lines, self._rest = (self._rest + data)[-READ_SIZE * 4 :].split(b"\n")
        for line in lines:
            self.say(line.decode("utf-8", "replace"))

    def say(self, line: str) -> None:
        text = plain(line).rstrip()
        if text:
            self.lines.append(text[:LINE])

    def close(self) -> None:
        if self._rest:
            self.say(self._rest.decode("utf-8", "replace"))
            self._rest = b""
        if self._file is not None:
            self._file.close()
        self._file = None


class Child:
    """`status`: None while it runs; -N for signal N."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self.gone = asyncio.Event()  # it will say nothing more

    @property
    def status(self) -> int | None:
        return self._process.returncode if self._process else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self, launch: Launch, base: Mapping[str, str], folder: Path) -> asyncio.subprocess.Process:
        """Raises OSError or ValueError."""
        self.gone.clear()
        env = {name: base[name] for name in (*INHERITED, *INHERITED_TOO) if name in base} | dict(launch.env)
        self._process = await asyncio.create_subprocess_exec(
            *launch.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=os.path.join(folder, os.path.expanduser(launch.cwd)),
            start_new_session=True,
        )
        return self._process

    async def stop(self) -> None:
        """Ask, TERM, KILL; the whole group, since `npx` and `uv` leave the server itself to a child."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        loop = asyncio.get_running_loop()
        for number, grace in ((0, STDIN_GRACE), (signal.SIGTERM, TERM_GRACE), (signal.SIGKILL, KILLED)):
            self._signal(number)
            deadline = loop.time() + grace
            while self._anyone() and loop.time() < deadline:  # noqa: ASYNC110 -- nothing tells when a group is empty
                await asyncio.sleep(POLL)
        deadline = loop.time() + KILLED  # asyncio may learn a moment later than the kernel how it ended
        while self.status is None and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(POLL)
        # otherwise it stays open as long as anybody holds a pipe end of it
        transport: Any = getattr(self._process, "_transport", None)
        if transport is not None:
            with contextlib.suppress(PermissionError):
                transport.close()

    def _signal(self, number: int) -> bool:
        """To its whole group. False: nobody is left in it."""
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return number == 0
        return True

    def _anyone(self) -> bool:
        """Orphans of the group fall to us, who reap them here; the leader is reaped by asyncio."""
        assert self._process is not None
        if self.status is not None:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-self._process.pid, os.WNOHANG)[0]:
                    pass
        return self._signal(0)


@asynccontextmanager
async def stdio(
    launch: Launch, base: Mapping[str, str], folder: Path, child: Child, words: Words
) -> AsyncGenerator[Streams, None]:
    """`base`: the environment of the user, of which the server gets little. Raises OSError when it cannot start."""
    words.start()
    process = await child.start(launch, base, folder)
    assert process.stdin and process.stdout and process.stderr
    into, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = (
        asyncio.create_task(_read_messages(process.stdout, into, words, child)),
        asyncio.create_task(_write_messages(outgoing, process.stdin, into)),
        asyncio.create_task(_read_words(process.stderr, words)),
    )
    try:
        yield read_stream, write_stream
    finally:
        stopping = asyncio.ensure_future(child.stop())
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            await stopping  # every wait in it is bounded; no child is left behind
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for stream in (into, read_stream, write_stream, outgoing):
                stream.close()
            words.close()


async def _read_messages(stdout: asyncio.StreamReader, into: Any, words: Words, child: Child) -> None:
    buffer = bytearray()
    with contextlib.ExitStack() as stack:
        stack.callback(child.gone.set)
        stack.enter_context(into)
        stack.enter_context(contextlib.suppress(OSError))
        while data := await stdout.read(READ_SIZE):
            start = len(buffer)
            buffer += data
            while (end := buffer.find(b"\n", start)) >= 0:
                line = bytes(buffer[:end]).strip()
                del buffer[: end + 1]
                start = 0
                if message := _message_of(line, words):
                    try:
                        await into.send(message)
                    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                        await _drain(stdout)
                        return
            if len(buffer) > LONGEST_MESSAGE:
                words.say(f"(a message of more than {LONGEST_MESSAGE // 10**6} MB on stdout)")
                return


async def _drain(stdout: asyncio.StreamReader) -> None:
    """A server that is stuck in writing could not see that its stdin was closed."""
    while await stdout.read(READ_SIZE):
        pass


def _message_of(line: bytes, words: Words) -> SessionMessage | None:
    """What is no message (a server that prints) is kept with its words: it is often the very reason."""
    if not line:
        return None
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError:
        pass
    try:
        data = _whole_characters(json.loads(line))
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(data, by_name=False))
    except (ValueError, RecursionError):
        words.say(f"(on stdout, where only messages belong) {line[:LINE].decode('utf-8', 'replace')}")
        return None


def _whole_characters(value: Any) -> Any:
    """Half surrogate pairs, which JSON can hold and UTF-8 cannot, become a replacement character."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_characters(v) for v in cast("list[Any]", value)]
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return {_whole_characters(k): _whole_characters(v) for k, v in given.items()}
    return value


async def _write_messages(outgoing: Any, stdin: asyncio.StreamWriter, into: Any) -> None:
    with outgoing:
        try:
            async for item in outgoing:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode("utf-8", "replace") + b"\n")
                await stdin.drain()
        except (OSError, anyio.ClosedResourceError):
            into.close()  # the waiting requests learn that nobody will answer


async def _read_words(stderr: asyncio.StreamReader, words: Words) -> None:
    with contextlib.suppress(OSError):
        while data := await stderr.read(READ_SIZE):
            words.add(data)
