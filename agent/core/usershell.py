"""Commands that the user runs himself: beside the turn, without a question, one after the other. What they said is part
of the user's next message (`notes`). Knows no front end, and no more of the shell than that it is a tool."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from agent.core.bus import Bus
from agent.core.permissions import accesses_of
from agent.core.rules import Rulebook
from agent.errors import AgentError, ToolFailure
from agent.events import Event, ShellEnded, ShellStarted, ToolProgress
from agent.messages import ToolOutput
from agent.processes import SHELL_CALL
from agent.protocols import Clock, Tool, ToolContext

STOPPED = "[stopped by the user]"


class UserShell:
    """`tool` runs them: its parameters must have a `command`. None: there is none here."""

    def __init__(
        self, tool: Tool | None, rules: Rulebook, publish: Callable[[Event], None], clock: Clock, bus: Bus
    ) -> None:
        self._tool, self._rules, self._publish, self._clock, self._bus = tool, rules, publish, clock, bus
        self._waiting: deque[str] = deque()
        self._runner: asyncio.Task[None] | None = None
        started = {e.call_id: e.command for e in bus.past if isinstance(e, ShellStarted)}
        self._count = len(started)
        ended = {e.call_id for e in bus.past if isinstance(e, ShellEnded)}
        for call_id, command in started.items():
            if call_id not in ended:  # the program ended under it
                self._publish(ShellEnded(call_id, command, STOPPED, failed=True, seconds=0.0))

    @property
    def running(self) -> bool:
        return self._runner is not None and not self._runner.done()

    def run(self, command: str) -> None:
        """Now, or behind the one that still runs. Raises AgentError for what cannot run, or what a rule forbids."""
        if self._tool is None:
            raise AgentError("There is no shell here.")
        plan = self._tool.plan(self._tool.params.model_validate({"command": command}))
        for access in accesses_of(plan):
            if rule := self._rules.first("deny", self._tool.name, access):
                where = "comes with the product" if rule.builtin else f"stands in {rule.source}"
                raise AgentError(
                    f"Not run: {command.strip()}. The rule deny {rule.text} {where}, and what a command here says is "
                    "told to the model. /permissions shows the rules; another terminal has none."
                )
        self._waiting.append(command)
        if not self.running:
            self._runner = asyncio.get_running_loop().create_task(self._run(), name="user-shell")

    async def stop(self) -> None:
        """The one that runs, and those behind it; returns when it is over."""
        self._waiting.clear()
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        while self._waiting:
            self._count += 1
            await self._one(f"{SHELL_CALL}{self._count}", self._waiting.popleft())

    async def _one(self, call_id: str, command: str) -> None:
        assert self._tool is not None

        def progress(text: str) -> None:
            self._publish(ToolProgress(call_id, text))

        def tail(text: str) -> None:
            self._publish(ToolProgress(call_id, "", text))

        def ended(output: ToolOutput) -> None:
            seconds = self._clock.monotonic() - started
            self._publish(ShellEnded(call_id, command, output.text, output.failed, seconds))

        self._publish(ShellStarted(call_id, command))
        started = self._clock.monotonic()
        try:
            params = self._tool.params.model_validate({"command": command})
            ended(await self._tool.run(params, ToolContext(call_id, self._tool.plan(params), progress, tail)))
        except ToolFailure as failure:
            ended(ToolOutput(str(failure), failed=True))
        except asyncio.CancelledError:
            said = self._bus.progress_of(call_id).strip("\n")
            ended(ToolOutput(f"{said}\n{STOPPED}".lstrip("\n"), failed=True))
            raise
