"""The bash tool: one command, its output bounded for the model and whole on disk, its end always told."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import IO

from pydantic import Field

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.access import command_plan
from agent.tools.base import Params, description_of
from agent.tools.limits import Window, plain
from agent.tools.process import Ended, ProcessBook
from agent.workspace.paths import Workspace

OUTPUT_LIMIT = 256_000_000  # bytes; more than this is a runaway
SAVED_LIMIT = 64_000_000  # bytes of it that are kept in a file: the disk is the user's
LONGEST = 3600.0  # seconds
LIVE_TOTAL = 1_000_000  # characters passed on while it runs
LIVE_PIECE = 2_000  # the newest of what came since the last piece
LIVE_EVERY = 0.1  # seconds


class BashParams(Params):
    command: str
    timeout: float = Field(default=120, gt=0)


class Bash:
    name = "bash"
    params = BashParams

    def __init__(self, workspace: Workspace, env: Mapping[str, str], logs: Path, book: ProcessBook) -> None:
        self.description = description_of("bash")
        self._workspace = workspace
        self._env = {k: v for k, v in env.items() if not k.startswith("DFLASH_SERVER_KEY")}
        self._logs = logs
        self._book = book
        self._numbers = count(1)

    def plan(self, params: BashParams) -> Plan:
        if not params.command.strip():
            raise ToolFailure("The command is empty. Nothing was run.")
        if "\0" in params.command:
            raise ToolFailure("The command holds a NUL character. Nothing was run.")
        return command_plan(params.command, self._workspace.root, self._workspace)

    async def run(self, params: BashParams, ctx: ToolContext) -> ToolOutput:
        if not self._workspace.root.is_dir():
            raise ToolFailure(f"The folder {self._workspace.root} is gone; no command can run in it.")
        output = _Output(ctx, self._logs / f"bash-{int(time.time())}-{next(self._numbers)}.log")
        timeout = min(params.timeout, LONGEST)
        try:
            ended = await self._book.run(
                params.command,
                cwd=self._workspace.root,
                env=self._env,
                timeout=timeout,
                on_output=output.add,
            )
        except OSError as error:
            raise ToolFailure(f"The command could not be started: {error.strerror or error}.") from error
        finally:
            output.told()
        if ended.heard:
            output.keep()
        text = "\n".join(p for p in (output.text().rstrip("\n"), *_endings(ended, timeout, output.log)) if p)
        return ToolOutput(text, failed=bool(ended.status or ended.why))


def _endings(ended: Ended, timeout: float, log: Path) -> list[str]:
    lines: list[str] = []
    if ended.why == "timeout":
        stopped = "" if ended.unkillable else "; it and all it had started were stopped"
        lines.append(f"[timed out after {timeout:g} s{stopped}]")
    elif ended.why == "output":
        lines.append(f"[stopped: more than {OUTPUT_LIMIT // 10**6} MB of output]")
    elif ended.status < 0:
        lines.append(f"[ended by signal {-ended.status}]")
    else:
        lines.append(f"[exit status {ended.status}]")
    if ended.left:
        names = ", ".join(f"{p.pid} ({p.command[:60]})" for p in ended.left[:8])
        heard = f"; what it prints goes to {log}" if ended.heard else ""
        lines.append(f"[left running in the background: {names}{heard}; stop with kill, or it ends with this session]")
    if ended.unkillable:
        lines.append(f"[could not be stopped: {', '.join(str(p.pid) for p in ended.unkillable)}]")
    return lines


class _Output:
    """Takes bytes as they come: a window for the model, a stream for the screen, and a file once it is long or a
    process in the background goes on writing."""

    def __init__(self, ctx: ToolContext, log: Path) -> None:
        self.log = log
        self._progress = ctx.progress
        self._window = Window()
        self._early = bytearray()
        self._file: IO[bytes] | None = None
        self._saved = True
        self._closed = False
        self._size = 0
        self._over = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._live = 0
        self._pending = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> bool:
        if not data:
            self._close()
            return False
        self._size += len(data)
        if not self._over:
            self._window.add(data)
            self._show(data)
        self._save(data)
        return self._size <= OUTPUT_LIMIT

    def told(self) -> None:
        """The call is over: what comes now is only for the file."""
        self._flush()
        self._over = True

    def keep(self) -> None:
        self._open()
        if self._file is not None:
            self._file.flush()

    def text(self) -> str:
        whole = "all of it" if self._window.size <= SAVED_LIMIT else f"its first {SAVED_LIMIT // 10**6} MB"
        where = f"; {whole} is in {self.log}" if self._saved and self._window.cut else ""
        return self._window.text(f"… {self._window.size} bytes in all, the middle is left out{where} …")

    def _show(self, data: bytes) -> None:
        if self._live >= LIVE_TOTAL:
            return
        self._pending = (self._pending + self._decoder.decode(data))[-LIVE_PIECE:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIVE_EVERY, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            text, self._pending = plain(self._pending), ""
            self._live += len(text)
            self._progress(text)

    def _save(self, data: bytes) -> None:
        if self._file is None and self._saved:
            self._early += data
            if self._window.cut:
                self._open()
        elif self._file is not None and self._saved and self._file.tell() < SAVED_LIMIT:
            self._write(data)

    def _open(self) -> None:
        if self._file is not None or self._closed or not self._saved:
            return
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = self.log.open("xb")
        except OSError:
            self._saved = False
        else:
            self._write(bytes(self._early))
        self._early.clear()

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            self._file.write(data)
            if self._over:
                self._file.flush()  # someone may be following it
        except OSError:
            self._saved = False

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file, self._closed = None, True
