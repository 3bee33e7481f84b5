"""Child processes: the engine that lives as long as we do, and the builder's commands. Knows nothing of what they run.

Children get a session of their own, so that one signal reaches all their descendants, and so that the terminal's ^C
goes to us alone. Their output is read by a task until it ends: a full pipe would stop the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent.errors import RuntimeFailure

# llama-server answers SIGTERM within 0.05 s once it serves; while it loads, it dies at once. The rest is a slow disk.
GRACE = 5.0
# After SIGKILL only the kernel works (freeing many GB of pages, closing a GPU): longer means an uninterruptible sleep.
KILL_WAIT = 10.0
# When the child is gone but a descendant keeps the pipe open, wait this long for the last words.
DRAIN_WAIT = 1.0
# Longest line that is passed on, in bytes; an engine's metadata dump can be one line of megabytes.
LINE_LIMIT = 8192
READ_SIZE = 65536
PR_SET_PDEATHSIG = 1

_LINE_END = re.compile(rb"[\r\n]+")


class Lines:
    """Cuts a stream of bytes into lines of text. Empty lines are dropped, too long ones are cut, and a lone carriage
    return ends a line too (progress bars)."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, rest = _LINE_END.split(self._rest + data)
        for line in lines:
            self._emit(line)
        # One byte more than is shown tells a cut line from a whole one; what follows need not be kept.
        self._rest = rest[: LINE_LIMIT + 1]

    def close(self) -> None:
        self._emit(self._rest)
        self._rest = b""

    def _emit(self, line: bytes) -> None:
        if line:
            text = line[:LINE_LIMIT].decode("utf-8", errors="replace")
            self._on_line(text + " …" if len(line) > LINE_LIMIT else text)


class Child:
    """A running process with its descendants. `pid` is also its process group; `started` is unix seconds."""

    def __init__(self, process: asyncio.subprocess.Process, drain: asyncio.Task[None]) -> None:
        self._process = process
        self._drain = drain
        self.pid = process.pid
        self.started = time.time()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        on_line: Callable[[str], None],
        cwd: Path | None = None,
    ) -> Child:
        """Starts `argv`; `on_line` gets stdout and stderr merged, line by line, and must not block.

        Raises RuntimeFailure when the program cannot be started.
        """
        read_end, write_end = os.pipe()
        try:
            # A pipe of our own: some Python versions end Process.wait() only after every holder of theirs is gone.
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=dict(env),
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )
        except OSError as error:
            os.close(read_end)
            raise _no_start(argv[0], error) from error
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        return cls(process, asyncio.create_task(_drain(read_end, on_line)))

    @property
    def returncode(self) -> int | None:
        """None while it runs; -N: killed by signal N."""
        return self._process.returncode

    @property
    def alive(self) -> bool:
        """The event loop learns of an end a moment after the kernel; this asks the kernel."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return self.returncode is None

    async def wait(self) -> int:
        """Waits for the end and for the last words; returns the exit status (-N: signal N). Raises what `on_line`
        raised."""
        code = await self._process.wait()
        await asyncio.wait({self._drain}, timeout=DRAIN_WAIT)
        if not self._drain.done():
            self._drain.cancel()
        elif not self._drain.cancelled() and (error := self._drain.exception()):
            raise error
        return code

    async def stop(self, grace: float = GRACE) -> None:
        """Ends the whole group: SIGTERM, up to `grace` seconds, then SIGKILL. Cancelled, it sends SIGKILL at once."""
        try:
            if self.returncode is None:
                _signal_group(self.pid, signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), grace)
        finally:
            # Also when the leader has obeyed: a descendant may not have.
            _signal_group(self.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), KILL_WAIT)
        await asyncio.wait({self._drain}, timeout=DRAIN_WAIT)
        self._drain.cancel()


async def run_lines(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    on_line: Callable[[str], None],
) -> int:
    """Runs a command to its end and returns its exit status (-N: killed by signal N). Its output goes to `on_line` as
    in Child.start. When cancelled, or when `on_line` raises, the whole group is ended first."""
    child = await Child.start(argv, env=env, cwd=cwd, on_line=on_line)
    try:
        return await child.wait()
    finally:
        await child.stop()


def spawn_detached(argv: Sequence[str], *, env: Mapping[str, str], said: bytes, output: Path) -> int:
    """Starts a program that outlives us, in a session of its own; it reads `said` from its standard input, and what it
    says goes to the file `output`, started afresh. Returns its pid; `reap` it. Raises RuntimeFailure."""
    read_end, write_end = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, read_end, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        pid = os.posix_spawn(argv[0], list(argv), dict(env), file_actions=actions, setsid=True)
    except OSError as error:
        os.close(write_end)
        raise _no_start(argv[0], error) from error
    finally:
        os.close(read_end)
    with contextlib.suppress(BrokenPipeError), os.fdopen(write_end, "wb") as pipe:
        pipe.write(said)
    return pid


def _no_start(program: str, error: OSError) -> RuntimeFailure:
    return RuntimeFailure(
        f"Cannot start {program}: {error.strerror or error}. Check that it is a program for this machine that you may "
        "run, or install it again."
    )


def reap(pid: int) -> None:
    """Let the kernel forget a child that has ended; one that still runs, or was no child of ours, stays."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


async def _drain(read_end: int, on_line: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(read_end, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    lines = Lines(on_line)
    try:
        while data := await reader.read(READ_SIZE):
            lines.feed(data)
    finally:
        transport.close()
        lines.close()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes the program: it asks Linux to be killed when we die, however we die. An
    engine without an owner would hold its memory for ever."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # writing 20 GB of memory to disk would keep it dying
        if os.getppid() != parent:
            os._exit(1)

    return prepare
