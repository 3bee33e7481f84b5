"""One tool call from the model's words to its result: find, validate, plan, permit, run, result.

The only place where a broad `except` turns a bug in a tool into a result the model can read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from agent.core.approvals import Approvals
from agent.core.permissions import Grant, Mode, decide, grant_of, refusal
from agent.errors import ToolFailure
from agent.events import CallPlanned, Event, PermissionSettled, ResultAdded, ToolProgress
from agent.messages import ToolCall, ToolOutput
from agent.protocols import Clock, Plan, Tool, ToolContext

log = logging.getLogger(__name__)
RESULT_LIMIT = 48_000  # characters; tools cut with more knowledge, this is the last guard of the context


class Settings(Protocol):
    """What of the session a call depends on at the moment it runs."""

    mode: Mode
    can_ask: bool


@dataclass(slots=True)
class Tally:
    """Of one turn. waited: seconds spent asking the user. denied: the last thing that mattered was a permission that
    nobody was there to give."""

    waited: float = 0.0
    denied: bool = False


class Dispatch:
    """`repair` mends the arguments' JSON text, or says None when it is beyond that."""

    def __init__(
        self,
        tools: Sequence[Tool],
        settings: Settings,
        approvals: Approvals,
        publish: Callable[[Event], None],
        clock: Clock,
        repair: Callable[[str], str | None],
    ) -> None:
        self._tools: Mapping[str, Tool] = {t.name: t for t in tools}
        self._settings = settings
        self._approvals = approvals
        self._publish = publish
        self._clock = clock
        self._repair = repair
        self._grants: frozenset[Grant] = frozenset()

    async def run(self, call: ToolCall, tally: Tally) -> ResultAdded:
        """Never raises but for cancellation."""
        try:
            tool, params = self._understand(call)
            plan = tool.plan(params)
        except ToolFailure as failure:
            return self._unplanned(call, str(failure))
        except Exception as error:
            log.exception("planning %s", call.name)
            return self._unplanned(call, f"Internal error in {call.name}: {type(error).__name__}: {error}")
        planned = CallPlanned(call.id, call.name, plan.kind, plan.title, plan.paths, plan.command, plan.preview)
        self._publish(planned)
        if refused := await self._permit(planned, plan, tally):
            return ResultAdded(call.id, call.name, refused, failed=True, seconds=0.0)
        started = self._clock.monotonic()
        output = await self._run(tool, params, self._context(call.id, plan))
        seconds = self._clock.monotonic() - started
        tally.denied = tally.denied and output.failed
        return ResultAdded(call.id, call.name, _cut(output.text), output.failed, seconds, output.display)

    def _unplanned(self, call: ToolCall, text: str) -> ResultAdded:
        self._publish(CallPlanned(call.id, call.name or "?", "other", call.name or "(no name)"))
        return ResultAdded(call.id, call.name, text, failed=True, seconds=0.0)

    def _understand(self, call: ToolCall) -> tuple[Tool, BaseModel]:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolFailure(f"There is no tool named {call.name!r}. The tools are: {', '.join(self._tools)}.")
        text = self._repair(call.arguments)
        if text is None:
            raise ToolFailure(
                f"The arguments of {call.name} are not a JSON object: {call.arguments[:200]!r}. "
                "Nothing was run. Send the call again with valid arguments."
            )
        arguments: dict[str, Any] = json.loads(text)
        try:
            return tool, tool.params.model_validate(arguments)
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()[:5])
            raise ToolFailure(f"Wrong arguments for {call.name}: {faults}. Nothing was run.") from error

    async def _permit(self, planned: CallPlanned, plan: Plan, tally: Tally) -> str:
        """Empty when allowed, else what the model reads."""
        mode = self._settings.mode
        verdict = decide(mode, plan, self._grants)
        if verdict == "allow":
            granted = grant_of(plan) in self._grants
            self._publish(
                PermissionSettled(planned.call_id, "session" if granted else "once", "rule" if granted else "mode")
            )
            return ""
        if verdict == "deny":
            self._publish(PermissionSettled(planned.call_id, "denied", "mode"))
            return refusal(plan.title, "mode", mode)
        if not self._settings.can_ask:
            tally.denied = True
            self._publish(PermissionSettled(planned.call_id, "denied", "nobody"))
            return refusal(plan.title, "nobody", mode)
        asked = self._clock.monotonic()
        try:
            request_id, decision = await self._approvals.ask(planned)
        finally:
            tally.waited += self._clock.monotonic() - asked
        self._publish(PermissionSettled(planned.call_id, decision, "user", request_id))
        if decision == "denied":
            return refusal(plan.title, "user", mode)
        if decision in ("session", "always") and not plan.outside:
            self._grants |= {grant_of(plan)}
        return ""

    async def _run(self, tool: Tool, params: BaseModel, ctx: ToolContext) -> ToolOutput:
        try:
            return await tool.run(params, ctx)
        except ToolFailure as failure:
            return ToolOutput(str(failure), failed=True)
        except Exception as error:
            log.exception("running %s", tool.name)
            return ToolOutput(f"Internal error in {tool.name}: {type(error).__name__}: {error}", failed=True)

    def _context(self, call_id: str, plan: Plan) -> ToolContext:
        def progress(text: str) -> None:
            self._publish(ToolProgress(call_id, text))

        def tail(text: str) -> None:
            self._publish(ToolProgress(call_id, "", text))

        return ToolContext(call_id, plan, progress, tail)


def _cut(text: str) -> str:
    if len(text) <= RESULT_LIMIT:
        return text
    half = RESULT_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
