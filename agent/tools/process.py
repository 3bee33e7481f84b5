"""The process tool: what runs in the background is listed, read, waited for, typed into and stopped."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from pydantic import Field

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of
from agent.tools.job import Job
from agent.tools.jobs import ProcessBook
from agent.tools.watch import Watch
from agent.tools.wording import joined, running, status_of, waiting

__all__ = ["Process", "ProcessBook"]
LONGEST_WAIT = 60.0  # seconds
REACTION = 5.0  # seconds in which a program may answer what was typed
QUIET = 0.5  # seconds without output after which it has answered
LOOK_EVERY = 0.25  # seconds


class ProcessParams(Params):
    action: Literal["list", "read", "stop", "wait", "write"]
    id: str = ""
    offset: int = Field(default=-1, ge=-1)
    text: str = ""


class Process:
    """`offset` -1: where the last reading ended."""

    name = "process"
    params = ProcessParams

    def __init__(self, book: ProcessBook) -> None:
        self.description = description_of("process")
        self._book = book

    def plan(self, params: ProcessParams) -> Plan:
        """Looking, and stopping what this conversation has started, needs nobody's permission; typing is as good as
        running a command."""
        if params.action == "list":
            return Plan("think", "list what runs in the background")
        job = self._job(params)
        if params.action == "write":
            if job.gone:
                raise ToolFailure(f"{job.id} ({job.title}) has ended{status_of(job)}. Nothing was typed.")
            return Plan("execute", f"type into {job.id} ({job.title})", command=params.text)
        return Plan("think", f"{params.action} {job.id} ({job.title})")

    async def run(self, params: ProcessParams, ctx: ToolContext) -> ToolOutput:
        self._book.left()  # so that pids and ports are those of now
        if params.action == "list":
            return ToolOutput("\n".join(_line(j) for j in self._book.running()) or "Nothing runs in the background.")
        job = self._job(params)
        match params.action:
            case "stop":
                return await self._stop(job)
            case "write":
                return await self._write(job, params.text)
            case "wait":
                await self._wait(job, LONGEST_WAIT)
            case _:
                pass
        return self._output(job, params.offset)

    def _job(self, params: ProcessParams) -> Job:
        if job := self._book.find(params.id):
            return job
        known = ", ".join(f"{j.id} ({j.title})" for j in self._book.running())
        raise ToolFailure(f"There is no process {params.id!r}. " + (f"Running: {known}." if known else "None runs."))

    async def _stop(self, job: Job) -> ToolOutput:
        if job.gone:
            return ToolOutput(f"{job.id} ({job.title}) had already ended{status_of(job)}.")
        return ToolOutput(await self._book.stop(job.id))

    async def _write(self, job: Job, text: str) -> ToolOutput:
        before = job.output.received
        try:
            job.type(text)
        except OSError as error:
            raise ToolFailure(f"{job.id} ({job.title}) takes no input: {error.strerror or error}.") from error
        until = time.monotonic() + REACTION
        while time.monotonic() < until and not job.over:
            await asyncio.sleep(LOOK_EVERY)
            if job.output.received != before and time.monotonic() - job.output.heard >= QUIET:
                break
        if job.over:
            await self._settled(job)
        return self._output(job, -1)

    async def _wait(self, job: Job, seconds: float) -> None:
        """Until it ends, asks for something, or the time is over."""
        watch = Watch(job)
        until = time.monotonic() + seconds
        while not job.gone and time.monotonic() < until:
            if watch.look(time.monotonic()) == "input":
                return
            if job.over:
                await self._settled(job)
                return
            await asyncio.sleep(LOOK_EVERY)

    async def _settled(self, job: Job) -> None:
        """The command is over; what it left running goes on."""
        if not job.gone and not await self._book.outlives(job):
            await job.finish()
            self._book.publish()
        self._book.heard(job)

    def _output(self, job: Job, offset: int) -> ToolOutput:
        text, job.told = job.output.since(offset if offset >= 0 else job.told)
        lines: list[str] = []
        if job.told < job.output.told:
            lines.append(f"[goes on at offset {job.told} of {job.output.size}]")
        elif not text.strip():
            lines.append("[no new output]")
        if job.gone:
            lines.append(f"[{job.id} has ended{status_of(job)}]")
        elif job.over:
            lines.append(f"[the command has ended{status_of(job)}; left running: {running(job)}]")
        elif Watch(job).look(time.monotonic()) == "input":
            lines.append(waiting(job))
        else:
            lines.append(f"[running: {running(job)}]")
        return ToolOutput(joined(text, lines))


def _line(job: Job) -> str:
    seconds = time.monotonic() - job.started
    return f"{running(job)}, for {seconds:.0f} s"
