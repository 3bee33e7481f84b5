"""The bash tool: one command in a terminal of its own. Its output is bounded for the model and whole on disk, its end
is always told, and what goes on without it has a number."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from pydantic import Field

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.access import command_plan
from agent.tools.base import Params, description_of
from agent.tools.job import Job
from agent.tools.jobs import CANCEL_GRACE, ProcessBook, named, new_mark
from agent.tools.output import OUTPUT_LIMIT, Output
from agent.tools.sandbox import Sandbox, hit
from agent.tools.shell import Left, Shell, read_left
from agent.tools.watch import Watch
from agent.tools.wording import Why, going_on, joined, running, status, status_of
from agent.workspace.paths import Workspace

LONGEST = 3600.0  # seconds
LONG = 60.0  # seconds after which a command without a time limit goes on in the background
OUTSIDE = "outside_sandbox=true asks the user to let it run outside"
STARTING = 3.0  # seconds in which a command for the background may fail, or open its port
LOOK_EVERY = 0.25  # seconds
LOOK_FROM = 0.5  # seconds; most commands are over by then and cost no look
_NUMBERS = count(1)  # of logs; the shells of one process share their folder


class BashParams(Params):
    command: str
    in_background: bool = False
    timeout: float = Field(default=0, ge=0)


class SandboxedParams(BashParams):
    outside_sandbox: bool = False


class Bash:
    """`patience`: seconds that the user has to answer a command that asks, before the model is told; 0 without one.
    `sandbox`: the wall around commands, or why there is none although the user wants it; None: not wanted."""

    name = "bash"

    def __init__(
        self,
        workspace: Workspace,
        env: Mapping[str, str],
        logs: Path,
        book: ProcessBook,
        patience: float = 0,
        sandbox: Sandbox | str | None = None,
    ) -> None:
        self.params = BashParams if sandbox is None else SandboxedParams
        self.description = description_of("bash") + _of_sandbox(sandbox)
        self._sandbox = sandbox
        self._workspace = workspace
        self._shell = Shell(workspace.root, env)
        self._logs = logs
        self._book = book
        self._patience = patience

    def plan(self, params: BashParams) -> Plan:
        if not params.command.strip():
            raise ToolFailure("The command is empty. Nothing was run.")
        if "\0" in params.command:
            raise ToolFailure("The command holds a NUL character. Nothing was run.")
        plan = command_plan(params.command, self._shell.standing, self._workspace, self._shell.means_the_same)
        if not self._outside(params):
            if isinstance(self._sandbox, str):
                raise ToolFailure(f"The sandbox does not work: {self._sandbox} {OUTSIDE}")
            return plan
        return replace(plan, title=f"outside the sandbox: {plan.title}", outside=True)

    def _outside(self, params: BashParams) -> bool:
        return isinstance(params, SandboxedParams) and params.outside_sandbox

    async def run(self, params: BashParams, ctx: ToolContext) -> ToolOutput:
        notes = self._news()
        job = self._start(params, ctx, notes)
        timeout = min(params.timeout, LONGEST)
        try:
            why = await self._foreground(job, timeout, params.in_background)
        except asyncio.CancelledError:
            if remaining := await self._book.end(job, CANCEL_GRACE):
                ctx.progress(f"\n[could not be stopped: {named(remaining)}]")
            raise
        finally:
            job.output.hide()
        if why == "over":
            return await self._ended(job, notes, walled=not self._outside(params))
        if why in ("timeout", "output"):
            return await self._stopped(job, why, timeout, notes)
        job.told = job.output.told
        self._book.keep(job)
        return ToolOutput(joined(job.text(), [*going_on(job, why), *notes]))

    def _news(self) -> list[str]:
        return [f"[in the background {job.id} ({job.title}) has ended{status_of(job)}]" for job in self._book.news()]

    def _start(self, params: BashParams, ctx: ToolContext, notes: list[str]) -> Job:
        if lost := self._shell.lost_folder():
            if not self._shell.folder.is_dir():
                raise ToolFailure(f"The folder {self._workspace.root} is gone; no command can run in it.")
            notes.append(f"[the folder {lost} is gone; this ran in {self._shell.folder}]")
        log = self._logs / f"bash-{int(time.time())}-{os.getpid()}-{next(_NUMBERS)}.log"
        output = Output(log, ctx.progress, ctx.tail)
        try:
            try:
                return self._run_in_shell(params, output)
            except OSError as error:
                if error.errno != errno.E2BIG:
                    raise
                self._shell.forget_variables()
                notes.append("[the exported variables had become too large for any command; they are as at first]")
                return self._run_in_shell(params, output)
        except OSError as error:
            raise ToolFailure(f"The command could not be started: {error.strerror or error}.") from error

    def _run_in_shell(self, params: BashParams, output: Output) -> Job:
        shell, sandbox = self._shell, self._sandbox
        argv, env = shell.argv(params.command), shell.env()
        if isinstance(sandbox, Sandbox) and not self._outside(params):
            argv = sandbox.argv(argv, shell.folder)
        return self._book.start(params.command, argv, cwd=shell.folder, env=env, mark=new_mark(), output=output)

    # ---- waiting
    async def _foreground(self, job: Job, timeout: float, background: bool) -> Why:
        watch = Watch(job)
        first = LOOK_FROM
        asked: float | None = None
        while True:
            elapsed = time.monotonic() - job.started
            limits = [first, *([timeout - elapsed] if timeout else []), *([STARTING - elapsed] if background else [])]
            if await _either(job.terminal.over, job.terminal.flooded, max(0.0, min(limits))):
                return "output" if job.terminal.flooded.is_set() else "over"
            first = LOOK_EVERY
            now = time.monotonic()
            elapsed = now - job.started
            if timeout and elapsed >= timeout:
                return "timeout"
            verdict = watch.look(now)
            self._book.listen(job, verdict == "input")
            if verdict == "port":
                return "port"
            if background and elapsed >= STARTING:
                return "wanted"
            if verdict == "input":
                asked = asked or now
                if now - max(asked, job.typed) >= self._patience:
                    return "input"
            else:
                asked = None
            if not timeout and not background and asked is None and elapsed >= LONG:
                return "long"

    # ---- results
    async def _ended(self, job: Job, notes: list[str], *, walled: bool) -> ToolOutput:
        await job.terminal.drain()
        state = read_left(job.terminal.state())
        lines = [status(job.terminal.code, state)]
        if await self._book.outlives(job):
            job.told = job.output.told
            self._book.keep(job)
            lines.append(f"[left running in the background: {running(job)}]")
        else:
            await job.finish()
            self._book.publish()
        lines += self._learn(state)
        if not job.background and not job.output.cut:
            self._book.forget(job)
        failed = lines[0] != "[exit status 0]"
        text = job.text()
        if failed and walled and isinstance(self._sandbox, Sandbox) and hit(text):
            lines.append(f"[this ran in the sandbox; {OUTSIDE}]")
        return ToolOutput(joined(text, [*lines, *notes]), failed=failed)

    def _learn(self, left: Left | None) -> list[str]:
        if left is None:
            return []
        before = self._shell.folder
        self._shell.learn(left)
        if self._shell.folder == before:
            return []
        return [f"[the next command runs in {self._shell.folder}; files are still named from {self._workspace.root}]"]

    async def _stopped(self, job: Job, why: Why, timeout: float, notes: list[str]) -> ToolOutput:
        unkillable = await self._book.end(job)
        if why == "timeout":
            stopped = "" if unkillable else "; it and all it had started were stopped"
            lines = [f"[timed out after {timeout:g} s{stopped}]"]
        else:
            lines = [f"[stopped: more than {OUTPUT_LIMIT // 10**6} MB of output]"]
        if unkillable:
            lines.append(f"[could not be stopped: {named(unkillable)}]")
        return ToolOutput(joined(job.text(), [*lines, *notes]), failed=True)


def _of_sandbox(sandbox: Sandbox | str | None) -> str:
    if sandbox is None:
        return ""
    network = "" if isinstance(sandbox, Sandbox) and sandbox.network else ", and there is no network"
    return " " + description_of("sandbox").replace("{network}", network)


async def _either(first: asyncio.Event, second: asyncio.Event, seconds: float) -> bool:
    """Has one of them come within that time?"""
    waits = [asyncio.ensure_future(event.wait()) for event in (first, second)]
    try:
        done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return bool(done)
