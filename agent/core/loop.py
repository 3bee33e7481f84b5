"""One turn: ask the model, run its calls, ask again, until it answers in words. Returns how the turn ended; what
happened on the way is published."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from agent.core.assembler import Assembler
from agent.core.dispatch import Dispatch, Tally
from agent.core.history import History
from agent.core.repeats import TIMES, Trail, duplicates, unrepeated
from agent.core.retry import Retries, cause
from agent.errors import AgentError, BadReply, ContextOverflow, Looping, ModelFault, ToolsRefused
from agent.events import (
    Event,
    Notice,
    Outcome,
    ResultAdded,
    StepRetrying,
    StepStarted,
)
from agent.messages import AssistantMessage, ToolCall
from agent.protocols import CallReader, Clock, ModelClient, ModelRequest

CUT_REPLIES = 3  # replies in a row that hit the output limit with calls in them: the model cannot make it smaller

CUT_CALL = (
    "Not run: the reply reached the output limit before this call was complete. "
    "Do the work in smaller pieces: write a short file first, then extend it with edits."
)
TAKEN_BACK = "The message was not kept in the conversation; send a shorter one, or start a new session."
SKIPPED_CALL = "Not run: the user sent a new message first."
DUPLICATE = "The same call as before in this reply; it ran once."
SAME_AGAIN = "(The same call gave the same result before. Do something else, or say what is in the way.)"


@dataclass(frozen=True, slots=True)
class TurnResult:
    outcome: Outcome
    detail: str = ""
    kind: str = ""


class TurnHost(Protocol):
    """The session, as far as a turn needs it. `take_steering` moves what the user said meanwhile into history.
    `make_room` shortens a conversation that would not fit; after a refusal: whether trying again makes sense."""

    turn: int

    def new_id(self) -> str: ...
    def request(self) -> ModelRequest: ...
    async def mend_tools(self) -> bool: ...
    def add_result(self, result: ResultAdded) -> None: ...
    def add_reply(self, message: AssistantMessage, seconds: float, sent: Mapping[str, Any] | None) -> None: ...
    async def take_steering(self) -> bool: ...
    async def make_room(self, fault: ContextOverflow | None = None) -> bool: ...
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
        reader: CallReader,
        max_steps: int | None,
    ) -> None:
        self._host = host
        self._model = model
        self._dispatch = dispatch
        self._history = history
        self._publish = publish
        self._clock = clock
        self._reader = reader
        self._max_steps = max_steps
        self._trail = Trail()
        self.tally = Tally()

    async def run(self) -> TurnResult:
        step, cut = 0, 0
        while True:
            if self._max_steps is not None and step >= self._max_steps:
                return TurnResult(
                    "limit", f"Stopped after {step} step{'' if step == 1 else 's'} (--max-turns).", "max_turns"
                )
            step += 1
            try:
                message = await self._step_with_room(step)
            except ContextOverflow as fault:
                return TurnResult("failed", self._too_big(fault), fault.kind)
            except ModelFault as fault:
                return TurnResult("failed", str(fault), fault.kind)
            if not message.calls:
                if await self._host.take_steering():
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
            await self._run_calls(message.calls)
            if await self._host.take_steering():
                self._trail.forget()
            elif self._trail.step():
                return TurnResult("failed", _question(message.calls), "repeated")

    # ---- one request
    async def _step_with_room(self, step: int) -> AssistantMessage:
        """A refusal for size is answered by one compaction and one more try."""
        await self._host.make_room()
        try:
            return await self._step(step)
        except ContextOverflow as fault:
            if not await self._host.make_room(fault):
                raise
            return await self._step(step)

    async def _step(self, step: int) -> AssistantMessage:
        """What had arrived of a reply stays, also when it was asked for again and nothing more came."""
        retries, why, best = Retries(), "", None
        while True:
            assembler = Assembler(self._host.new_id(), self._history.call_ids)
            started = self._clock.monotonic()
            try:
                try:
                    reason = await self._accepted(step, assembler)
                    break
                except ModelFault as fault:
                    best = assembler if assembler.started else best
                    pause = retries.after(fault, started=assembler.started)
                    if pause is None:
                        self._keep(best, "error", started, fault)
                        raise
                    if cause(fault) != why:
                        why = cause(fault)
                        self._publish(StepRetrying(self._host.turn, retries.attempt, why))
                    await asyncio.sleep(pause)
            except asyncio.CancelledError:
                self._keep(assembler if assembler.started else best, "interrupted", started)
                raise
        message = self._with_recovered(assembler.message(reason, keep_calls=True))
        self._host.add_reply(message, self._clock.monotonic() - started, assembler.sent)
        return message

    def _with_recovered(self, message: AssistantMessage) -> AssistantMessage:
        """Calls that the server left in the text are calls."""
        if message.calls or not message.text:
            return message
        text, found = self._reader.calls_in(message.text, self._dispatch.tool_names)
        if not found:
            return message
        calls = tuple(
            ToolCall(f"call_{message.id}_{n}", name, arguments, recovered=True)
            for n, (name, arguments) in enumerate(found)
        )
        return replace(message, text=text, calls=calls)

    async def _accepted(self, step: int, assembler: Assembler) -> Literal["stop", "tool_calls", "length"]:
        """A list of tools that the server refuses is mended for as long as that changes something."""
        while True:
            try:
                return await self._stream(step, assembler)
            except ToolsRefused:
                if not await self._host.mend_tools():
                    raise

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

    def _keep(
        self,
        assembler: Assembler | None,
        finish: Literal["interrupted", "error"],
        started: float,
        fault: ModelFault | None = None,
    ) -> None:
        if assembler is not None and assembler.started:
            message = assembler.message(finish, keep_calls=False)
            if isinstance(fault, Looping):
                text, thinking = (unrepeated(words, fault.piece) for words in (message.text, message.thinking))
                message = replace(message, text=text, thinking=thinking)
            self._host.add_reply(message, self._clock.monotonic() - started, assembler.sent)

    # ---- its calls
    async def _run_calls(self, calls: tuple[ToolCall, ...]) -> None:
        again = duplicates(calls)
        for number, call in enumerate(calls):
            if self._host.steering:
                self._refuse(calls[number:], SKIPPED_CALL)
                return
            if call.id in again:
                self._host.add_result(ResultAdded(call.id, call.name, DUPLICATE, failed=False, seconds=0.0))
                continue
            result = await self._dispatch.run(call, self.tally)
            if self._trail.made(call, result):
                shown = result.display or result.text
                result = replace(result, text=f"{result.text}\n{SAME_AGAIN}", display=shown)
            self._host.add_result(result)

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


def _question(calls: tuple[ToolCall, ...]) -> str:
    names = ", ".join(dict.fromkeys(c.name for c in calls))
    return f"Stopped: the model did the same {TIMES} times with the same result ({names}). What should it do instead?"


def result_of(task: asyncio.Task[TurnResult]) -> TurnResult:
    if task.cancelled():
        return TurnResult("interrupted")
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, AgentError):
        return TurnResult("failed", str(error), error.kind)
    # a bug: shown as such, its traceback kept by the front end's log
    task.get_loop().call_exception_handler({"message": "bug in a turn", "exception": error})
    return TurnResult("failed", f"Internal error: {type(error).__name__}: {error}", "bug")
