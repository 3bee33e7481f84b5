"""One tool call from the model's words to its result: find, validate, plan, permit, run, result.

The only place where a broad `except` turns a bug in a tool into a result the model can read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from agent.core.approvals import Approvals
from agent.core.changes import Changes
from agent.core.narrowing import kept_to, permits
from agent.core.permissions import Mode, Ruling, decide, refusal
from agent.core.rules import Rulebook
from agent.core.understand import Understanding, Understood
from agent.errors import ConfigError, ToolFailure
from agent.events import CallPlanned, Decision, Event, Mending, Notice, PermissionSettled, ResultAdded, ToolProgress
from agent.messages import ToolCall, ToolOutput
from agent.protocols import CallReader, Clock, LateTools, Plan, Tool, ToolContext

log = logging.getLogger(__name__)
RESULT_LIMIT = 48_000  # characters; tools cut with more knowledge, this is the last guard of the context


class Settings(Protocol):
    """What of the session a call depends on at the moment it runs."""

    mode: Mode
    can_ask: bool
    turn: int


@dataclass(slots=True)
class Tally:
    """Of one turn. waited: seconds spent asking the user. denied: the last thing that mattered was a permission that
    nobody was there to give. rules: what the turn keeps to, as in `narrowing`."""

    waited: float = 0.0
    denied: bool = False
    rules: tuple[str, ...] = ()


class Dispatch:
    def __init__(
        self,
        tools: Sequence[Tool],
        settings: Settings,
        approvals: Approvals,
        publish: Callable[[Event], None],
        clock: Clock,
        reader: CallReader,
        rules: Rulebook,
        changes: Changes,
        late: LateTools | None = None,
    ) -> None:
        self._understanding = Understanding(tools, reader, late)
        self._settings = settings
        self._approvals = approvals
        self._publish = publish
        self._clock = clock
        self._rules = rules
        self._changes = changes

    @property
    def tool_names(self) -> tuple[str, ...]:
        return self._understanding.names

    def rules(self, allowed: Sequence[str]) -> tuple[str, ...]:
        return kept_to(allowed, self.tool_names)

    async def run(self, call: ToolCall, tally: Tally) -> ResultAdded:
        """Never raises but for cancellation."""
        known: Understood | None = None
        try:
            known = self._understanding.of(call)
            plan = known.tool.plan(known.params)
        except ToolFailure as failure:
            return self._unplanned(call, str(failure), known.mending if known else ("refused",))
        except Exception as error:
            log.exception("planning %s", call.name)
            return self._unplanned(call, f"Internal error in {call.name}: {type(error).__name__}: {error}")
        name = known.tool.name
        planned = CallPlanned(
            call.id, plan.tool or name, plan.kind, plan.title, plan.paths, plan.command, plan.preview, known.mending
        )
        self._publish(planned)
        if refused := await self._permit(planned, plan, tally):
            return ResultAdded(call.id, name, refused, failed=True, seconds=0.0)
        await self._changes.before(self._settings.turn, plan)
        started, waited = self._clock.monotonic(), tally.waited
        output = await self._run(known.tool, known.params, self._context(call.id, plan, tally))
        seconds = max(0.0, self._clock.monotonic() - started - (tally.waited - waited))
        tally.denied = tally.denied and output.failed
        tally.rules = self.rules(output.allowed) or tally.rules
        return ResultAdded(call.id, name, _cut(output.text), output.failed, seconds, output.display)

    async def look(self, tool: Tool, params: BaseModel) -> ToolOutput:
        """What the user has named, as a call would show it. Nobody is asked: what would have to be is refused, in words
        for the user."""
        try:
            plan = tool.plan(params)
        except ToolFailure as failure:
            return ToolOutput(str(failure), failed=True)
        ruling = decide(self._settings.mode, plan.tool or tool.name, plan, self._rules)
        if ruling.verdict == "deny":
            return ToolOutput(f"a rule forbids it: {ruling.why}.", failed=True)
        if ruling.verdict == "ask":
            why = ruling.why or "it would need a permission"
            return ToolOutput(
                f"{why}. Let the model read it (you are asked), or give the folder with --add-dir.", failed=True
            )
        return await self._run(tool, params, self._context("", plan, Tally()))

    def _unplanned(self, call: ToolCall, text: str, mending: tuple[Mending, ...] = ()) -> ResultAdded:
        self._publish(CallPlanned(call.id, call.name or "?", "other", call.name or "(no name)", mending=mending))
        return ResultAdded(call.id, call.name, text, failed=True, seconds=0.0)

    async def _permit(self, planned: CallPlanned, plan: Plan, tally: Tally) -> str:
        """Empty when allowed, else what the model reads."""
        mode, call_id = self._settings.mode, planned.call_id
        if not permits(tally.rules, planned.tool, plan.command):
            self._publish(PermissionSettled(call_id, "denied", "rule"))
            return refusal(plan.title, ", ".join(tally.rules), mode)
        ruling = decide(mode, planned.tool, plan, self._rules)
        if ruling.verdict == "allow":
            self._publish(PermissionSettled(call_id, "once", ruling.by, why=ruling.why))
            return ""
        if ruling.verdict == "deny":
            self._publish(PermissionSettled(call_id, "denied", ruling.by, why=ruling.why))
            return refusal(plan.title, ruling.by, mode, ruling.why)
        if not self._settings.can_ask:
            tally.denied = True
            self._publish(PermissionSettled(call_id, "denied", "nobody", why=ruling.why))
            return refusal(plan.title, "nobody", mode, ruling.why)
        asked = self._clock.monotonic()
        try:
            request_id, decision = await self._approvals.ask(planned, ruling, keeps=self._rules.can_keep)
        finally:
            tally.waited += self._clock.monotonic() - asked
        waited = self._clock.monotonic() - asked
        self._publish(PermissionSettled(call_id, decision, "user", request_id, ruling.why, waited))
        if decision == "denied":
            return refusal(plan.title, "user", mode)
        self._grant(decision, ruling)
        return ""

    def _grant(self, decision: Decision, ruling: Ruling) -> None:
        try:
            if decision == "session":
                self._rules.grant(ruling.session_offers, always=False)
            elif decision == "always":
                self._rules.grant(ruling.offers, always=True)
        except ConfigError as error:
            self._publish(Notice("warning", f"The rule holds for this session only. {error}"))

    async def _run(self, tool: Tool, params: BaseModel, ctx: ToolContext) -> ToolOutput:
        try:
            return await tool.run(params, ctx)
        except ToolFailure as failure:
            return ToolOutput(str(failure), failed=True)
        except Exception as error:
            log.exception("running %s", tool.name)
            return ToolOutput(f"Internal error in {tool.name}: {type(error).__name__}: {error}", failed=True)

    def _context(self, call_id: str, plan: Plan, tally: Tally) -> ToolContext:
        async def ask(question: str, options: tuple[str, ...]) -> str:
            asked = self._clock.monotonic()
            try:
                return await self._approvals.question(call_id, question, options)
            finally:
                tally.waited += self._clock.monotonic() - asked

        def progress(text: str) -> None:
            self._publish(ToolProgress(call_id, text))

        def tail(text: str) -> None:
            self._publish(ToolProgress(call_id, "", text))

        can_ask = self._settings.can_ask
        return ToolContext(call_id, plan, progress, tail, self._settings.turn, ask if can_ask else None)


def _cut(text: str) -> str:
    if len(text) <= RESULT_LIMIT:
        return text
    half = RESULT_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
