"""One turn: ask the model, run its calls, ask again, until it answers in words. Returns how the turn ended; what
happened on the way is published."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agent.core.assembler import Assembler
from agent.core.dispatch import Dispatch, Tally
from agent.core.history import History
from agent.errors import BadReply, ContextOverflow, ModelFault
from agent.events import (
    Event,
    Notice,
    Outcome,
    ResultAdded,
    StepRetrying,
    StepStarted,
)
from agent.messages import AssistantMessage, ToolCall
from agent.protocols import Clock, ModelClient, ModelRequest

RETRIES = 2  # of one request; once some of the reply has arrived, one
RETRY_PAUSES = (0.5, 2.0)  # seconds
CUT_REPLIES = 3  # replies in a row that hit the output limit with calls in them: the model cannot make it smaller
SAME_FAILURES = 4  # times in a row that the very same calls failed

CUT_CALL = (
    "Not run: the reply reached the output limit before this call was complete. "
    "Do the work in smaller pieces: write a short file first, then extend it with edits."
)
TAKEN_BACK = "The message was not kept in the conversation; send a shorter one, or start a new session."
SKIPPED_CALL = "Not run: the user sent a new message first."


@dataclass(frozen=True, slots=True)
class TurnResult:
    outcome: Outcome
    detail: str = ""
    kind: str = ""


class TurnHost(Protocol):
    """The session, as far as a turn needs it. `take_steering` moves what the user said meanwhile into history."""

    turn: int

    def new_id(self) -> str: ...
    def request(self) -> ModelRequest: ...
    def add_result(self, result: ResultAdded) -> None: ...
    def add_reply(self, message: AssistantMessage, seconds: float, sent: Mapping[str, Any] | None) -> None: ...
    def take_steering(self) -> bool: ...
    @property
    def steering(self) -> bool: ...


class Turn:
    """`max_steps`: requests to the model in this turn; None: no limit."""

    def __init__(
        self,
        host: TurnHost,
        model: ModelClient,
        dispatch: Dispatch,
        history: History,
        publish: Callable[[Event], None],
        clock: Clock,
        max_steps: int | None,
    ) -> None:
        self._host = host
        self._model = model
        self._dispatch = dispatch
        self._history = history
        self._publish = publish
        self._clock = clock
        self._max_steps = max_steps
        self.tally = Tally()

    async def run(self) -> TurnResult:
        step, cut, failures = 0, 0, 0
        last_failed: list[tuple[str, str]] = []
        while True:
            if self._max_steps is not None and step >= self._max_steps:
                return TurnResult("limit", f"Stopped after {step} steps (--max-turns).", "max_turns")
            step += 1
            try:
                message = await self._step(step)
            except ContextOverflow as fault:
                return TurnResult("failed", self._too_big(fault), fault.kind)
            except ModelFault as fault:
                return TurnResult("failed", str(fault), fault.kind)
            if not message.calls:
                if self._host.take_steering():
                    continue
                return self._ending(message)
            if message.finish == "length":
                cut += 1
                self._publish(Notice("warning", "The reply hit the output limit; the cut calls were not run."))
                self._refuse(message.calls, CUT_CALL)
                if cut >= CUT_REPLIES:
                    detail = f"Stopped: {cut} replies in a row hit the output limit. Ask for smaller pieces."
                    return TurnResult("limit", detail, "output_limit")
                continue
            cut = 0
            failed = await self._run_calls(message.calls)
            failures = failures + 1 if failed and failed == last_failed else 1 if failed else 0
            last_failed = failed
            if failures >= SAME_FAILURES:
                detail = f"Stopped: the model repeated the same failing call {failures} times."
                return TurnResult("failed", detail, "repeated_failure")
            self._host.take_steering()

    # ---- one request
    async def _step(self, step: int) -> AssistantMessage:
        """A reply that broke off is asked for once more: nothing has been run yet that would be run twice."""
        broken = False
        for attempt in range(RETRIES + 1):
            assembler = Assembler(self._host.new_id(), self._history.call_ids())
            started = self._clock.monotonic()
            try:
                reason = await self._stream(step, assembler)
            except asyncio.CancelledError:
                self._keep(assembler, "interrupted", started)
                raise
            except ModelFault as fault:
                if not fault.retryable or attempt == RETRIES or (assembler.started and broken):
                    self._keep(assembler, "error", started)
                    raise
                broken = broken or assembler.started
                self._publish(StepRetrying(self._host.turn, attempt + 1, str(fault)))
                await asyncio.sleep(RETRY_PAUSES[attempt])
            else:
                message = assembler.message(reason, keep_calls=True)
                self._host.add_reply(message, self._clock.monotonic() - started, assembler.sent)
                return message
        raise AssertionError("unreachable")

    async def _stream(self, step: int, assembler: Assembler) -> Literal["stop", "tool_calls", "length"]:
        message_id = assembler.message("stop", keep_calls=False).id
        self._publish(StepStarted(self._host.turn, step, message_id))
        stream = self._model.stream(self._host.request())
        try:
            async for chunk in stream:
                if event := assembler.feed(chunk):
                    self._publish(event)
        finally:
            await stream.aclose()
        end = assembler.finish
        if end is None or end.reason is None:
            raise BadReply("The reply broke off before it was complete. Send your message again to retry.")
        return end.reason

    def _keep(self, assembler: Assembler, finish: Literal["interrupted", "error"], started: float) -> None:
        """What was said stays; half-made calls go."""
        if assembler.started:
            message = assembler.message(finish, keep_calls=False)
            self._host.add_reply(message, self._clock.monotonic() - started, assembler.sent)

    # ---- its calls
    async def _run_calls(self, calls: tuple[ToolCall, ...]) -> list[tuple[str, str]]:
        """Name and arguments of the calls when all of them failed, else nothing."""
        failed: list[tuple[str, str]] = []
        for number, call in enumerate(calls):
            if self._host.steering:
                self._refuse(calls[number:], SKIPPED_CALL)
                return []
            result = await self._dispatch.run(call, self.tally)
            self._host.add_result(result)
            if result.failed:
                failed.append((call.name, call.arguments))
        return failed if len(failed) == len(calls) else []

    def _refuse(self, calls: tuple[ToolCall, ...], why: str) -> None:
        for call in calls:
            self._host.add_result(ResultAdded(call.id, call.name, why, failed=True, seconds=0.0))

    def _too_big(self, fault: ContextOverflow) -> str:
        if not self._history.unanswered:
            return str(fault)
        sizes = f": {fault.prompt_tokens} tokens, but the context holds {fault.n_ctx}" if fault.prompt_tokens else ""
        return f"With this message the conversation does not fit{sizes}. {TAKEN_BACK}"

    def _ending(self, message: AssistantMessage) -> TurnResult:
        said = bool(message.text.strip())
        if message.finish == "length":
            tokens = message.usage.generated_tokens
            size = f" of {tokens} tokens" if tokens else ""
            if said:
                return TurnResult(
                    "limit", f"The answer reached the output limit{size}; say “go on” for the rest.", "output_limit"
                )
            return TurnResult(
                "limit", f"No answer: the model used its whole output limit{size} thinking.", "output_limit"
            )
        if message.finish == "tool_calls":
            return TurnResult(
                "failed", "The model announced a tool call but made none. Send your message again.", "empty"
            )
        if not said:
            why = "it only thought" if message.thinking.strip() else "the reply was empty"
            return TurnResult(
                "failed", f"The model gave no answer ({why}). Send your message again, or say it differently.", "empty"
            )
        if self.tally.denied:
            detail = "Permission was needed and nobody was there to give it; --permission-mode auto lets it work alone."
            return TurnResult("denied", detail, "permission")
        return TurnResult("done")
