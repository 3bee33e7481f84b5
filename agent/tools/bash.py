"""The bash tool: one command, its output bounded for the model and whole on disk, its end always told."""

from __future__ import annotations

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
from agent.tools.base import Params, description_of
from agent.tools.limits import Window, plain
from agent.tools.process import Ended, ProcessBook
from agent.workspace.paths import Workspace

OUTPUT_LIMIT = 256_000_000  # bytes; more than this is a runaway
SAVED_LIMIT = 64_000_000  # bytes of it that are kept in a file: the disk is the user's
SHOWN_LIVE = 16_000  # characters passed on while it runs
LIVE_EVERY = 0.1  # seconds


class BashParams(Params):
    command: str
    timeout: float = Field(default=120, gt=0, le=3600)


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
        return Plan("execute", params.command.strip().split("\n", 1)[0], command=params.command)

    async def run(self, params: BashParams, ctx: ToolContext) -> ToolOutput:
        if not self._workspace.root.is_dir():
            raise ToolFailure(f"The folder {self._workspace.root} is gone; no command can run in it.")
        output = _Output(ctx, self._logs / f"bash-{int(time.time())}-{next(self._numbers)}.log")
        try:
            ended = await self._book.run(
                params.command,
                cwd=self._workspace.root,
                env=self._env,
                timeout=params.timeout,
                on_output=output.add,
            )
        except OSError as error:
            raise ToolFailure(f"The command could not be started: {error.strerror or error}.") from error
        finally:
            output.close()
        text = "\n".join(p for p in (output.text().rstrip("\n"), *_endings(ended, params.timeout)) if p)
        return ToolOutput(text, failed=bool(ended.status or ended.why))


def _endings(ended: Ended, timeout: float) -> list[str]:
    lines: list[str] = []
    if ended.why == "timeout":
        lines.append(f"[timed out after {timeout:g} s; it and all it had started were stopped]")
    elif ended.why == "output":
        lines.append(f"[stopped: more than {OUTPUT_LIMIT // 10**6} MB of output]")
    elif ended.status < 0:
        lines.append(f"[ended by signal {-ended.status}]")
    else:
        lines.append(f"[exit status {ended.status}]")
    if ended.left:
        names = ", ".join(f"{p.pid} ({p.command[:60]})" for p in ended.left[:8])
        lines.append(f"[left running in the background: {names}; stop with kill, or it ends with this session]")
    if ended.unkillable:
        lines.append(f"[could not be stopped: {', '.join(str(p.pid) for p in ended.unkillable)}]")
    return lines


class _Output:
    """Takes bytes as they come: a window for the model, a stream for the screen, and a file once it is long."""

    def __init__(self, ctx: ToolContext, log: Path) -> None:
        self._ctx = ctx
        self._log = log
        self._window = Window()
        self._early = bytearray()
        self._file: IO[bytes] | None = None
        self._live = 0
        self._pending = ""
        self._shown_at = 0.0
        self._saved = True

    def add(self, data: bytes) -> bool:
        self._window.add(data)
        self._save(data)
        if self._live < SHOWN_LIVE:
            self._pending += plain(data.decode("utf-8", "replace"))[:SHOWN_LIVE]
            self._live += len(data)
        now = time.monotonic()
        if self._pending and now - self._shown_at > LIVE_EVERY:
            self._shown_at = now
            self._ctx.progress(self._pending)
            self._pending = ""
        return self._window.size <= OUTPUT_LIMIT

    def _save(self, data: bytes) -> None:
        if self._file is None and self._saved:
            self._early += data
            if not self._window.cut:
                return
            try:
                self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._file = self._log.open("xb")
            except OSError:
                self._saved = False
                self._early.clear()
                return
            data, self._early = bytes(self._early), bytearray()
        if self._file is not None and self._file.tell() < SAVED_LIMIT:
            try:
                self._file.write(data)
            except OSError:
                self._saved = False

    def text(self) -> str:
        whole = "all of it" if self._window.size <= SAVED_LIMIT else f"its first {SAVED_LIMIT // 10**6} MB"
        where = f"; {whole} is in {self._log}" if self._saved and self._window.cut else ""
        return self._window.text(f"… {self._window.size} bytes in all, the middle is left out{where} …")

    def close(self) -> None:
        if self._pending:
            self._ctx.progress(self._pending)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
