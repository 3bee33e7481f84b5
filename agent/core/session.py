"""The conversation as a long-lived actor. One runner alone changes it; only the turn inside the runner is ever
cancelled, so that even a turn that never ran its first line ends with settled calls and one TurnEnded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent.core.approvals import Approvals
from agent.core.bus import Bus, Subscription
from agent.core.cache import Reading, held
from agent.core.changes import Changes
from agent.core.compaction import Compactor
from agent.core.dispatch import Dispatch
from agent.core.forms import Forms
from agent.core.history import History, fitting, last_id, last_setting
from agent.core.loop import Turn, TurnResult, result_of
from agent.core.mentions import NOTHING, Beside, Mentions
from agent.core.notes import note_for
from agent.core.permissions import Mode
from agent.core.prefix import news
from agent.core.record import Record
from agent.core.rules import Rulebook
from agent.core.spending import Spending, spending
from agent.core.thinking import from_word, word
from agent.core.usershell import UserShell
from agent.core.waiting import Waiting, WaitingLine
from agent.errors import AgentError, ContextOverflow
from agent.events import (
    DURABLE,
    AssistantAdded,
    Compacted,
    Decision,
    DurableEvent,
    Endpoint,
    Event,
    GivenBack,
    Notice,
    ResultAdded,
    ServerChanged,
    ServerState,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from agent.messages import AssistantMessage, Prefix, UserMessage
from agent.protocols import (
    CallReader,
    Checkpoints,
    Clock,
    Journal,
    LateTools,
    Mentionable,
    ModelClient,
    ModelRequest,
    Processes,
    TokenCounter,
    Tool,
)

INTERRUPTED_CALL = "Interrupted by the user before it had a result."
LAST_WORDS = 4_000  # characters of what an interrupted call had said


class Session:
    """`past`: events of a resumed session. `can_ask`: someone is there to answer permission questions.
    `tools_json`: the canonical tool list, built once. `max_tokens`: output limit of one reply. `prefix`: what a resumed
    session began with; where that differs from `system` and `tools_json`, the model is told so. `late`: tools that are
    not in that list, and what the model is to be told of them along with the newest message. `mentionable`: what a
    message may mention by `@name`. `shell`: what runs the commands that the user types."""

    def __init__(
        self,
        *,
        model: ModelClient,
        tools: Sequence[Tool],
        tools_json: str,
        system: str,
        journal: Journal,
        clock: Clock,
        reader: CallReader,
        late: LateTools | None = None,
        rules: Rulebook | None = None,
        checkpoints: Checkpoints | None = None,
        past: Sequence[DurableEvent] = (),
        mode: Mode = "ask",
        can_ask: bool = True,
        max_steps: int | None = None,
        max_tokens: int | None = None,
        prefix: Prefix | None = None,
        counter: TokenCounter,
        thinking: bool | int | None = None,
        processes: Processes | None = None,
        mentionable: Sequence[Mentionable] = (),
        shell: Tool | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.can_ask = can_ask
        past = tuple(fitting(past))
        self.turn = sum(isinstance(e, TurnStarted) and not e.steered for e in past)
        self._bus = Bus(past)
        self._history = History.from_events(past)
        self._model = model
        self._thinking = thinking if (kept := last_setting(past, "thinking")) is None else from_word(kept)
        self._now = Prefix(system, tools_json, bool(self._thinking))
        self._prefix = prefix or self._now
        self._reading, self._last_id = Reading(held(past)), last_id(past)
        self._journal, self._clock, self._reader = journal, clock, reader
        self._record = Record(journal, clock, self._complain, prefix)
        self._max_steps, self.max_tokens = max_steps, max_tokens
        self.processes = processes
        self._endpoint: Endpoint | None = None
        seen = (*past, SettingsChanged("mode", mode))
        self._compactor = Compactor(self, self._history, model, counter, self.publish, clock, seen)
        self._approvals = Approvals(self.publish)
        self.forms, self._late = Forms(self.publish), late
        self.changes = Changes(checkpoints, self.publish, lambda: self.running)
        book = rules or Rulebook()
        self._dispatch = Dispatch(tools, self, self._approvals, self.publish, clock, reader, book, self.changes, late)
        self.mentions = Mentions(mentionable, self._dispatch.look)
        self._waiting = WaitingLine(self.publish)
        self.shell = UserShell(shell, book, self.publish, clock, self._bus)
        self._running: asyncio.Task[Any] | None = None
        self._ahead: asyncio.Task[None] | None = None
        self.read: int | None = None  # tokens that were read ahead; None: none
        self._idle, self._wake = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._settle_open_calls()
        if past and mode != (last_setting(past, "mode") or mode):
            self.publish(SettingsChanged("mode", mode))  # a resumed session goes on as it was asked to this time
        self._runner = asyncio.get_running_loop().create_task(self._run(), name="session")

    # ---- what front ends call
    @property
    def id(self) -> str:
        return self._journal.session_id

    @property
    def running(self) -> bool:
        return not self._idle.is_set()

    @property
    def past(self) -> tuple[DurableEvent, ...]:
        return self._bus.past

    def subscribe(self) -> Subscription:
        """The durable past, what is open now, then what comes."""
        return self._bus.subscribe()

    def holds(self, text: str) -> bool:
        """Does it stand in what the model sees?"""
        return any(text in m.text for m in self._history.view())

    def submit(self, text: str, *, shown: str = "", allowed: Sequence[str] = (), points: Sequence[str] = ()) -> None:
        """Starts a turn, or queues it behind the running one; the arguments are the fields of `Waiting`."""
        self._waiting.add(Waiting(text, shown, tuple(allowed), tuple(points)))
        if self._ahead is not None:
            self._ahead.cancel()
        if self.running:
            self._waiting.show()
        self._idle.clear()
        self._wake.set()

    def read_ahead(self) -> None:
        """Has the server read what the next request begins with while the user types; a message ends it."""
        if not self.running and (self._ahead is None or self._ahead.done()):
            self._ahead = asyncio.get_running_loop().create_task(self._read_ahead(), name="read-ahead")

    async def read_now(self) -> int | None:
        """As `read_ahead`, also on a server that others share: the user has asked for it. Raises AgentError."""
        self.read = await self._model.read_ahead(self.request())
        return self.read

    async def _read_ahead(self) -> None:
        with contextlib.suppress(AgentError):  # the next request meets the same fault, and says so
            self.read = await self._model.read_ahead(self.request())

    def steer(self, text: str) -> None:
        """Joins the running turn after the current tool call; without a running turn it starts one."""
        if self._running is None:
            self.submit(text)
            return
        self._waiting.steer(text)

    def take_back(self) -> tuple[str, ...]:
        """What still waits to be sent, in that order; it waits no longer."""
        return self._waiting.take_back()

    async def cancel(self) -> tuple[str, ...]:
        """Stops the running turn and returns when it is settled; gives back what was still queued, unsent."""
        unsent = self.take_back()
        self._compactor.drop()
        if self._running is not None:
            self._running.cancel()
        await self._idle.wait()
        return unsent

    def answer(self, request_id: str, decision: Decision) -> bool:
        return self._approvals.answer(request_id, decision)

    def reply(self, request_id: str, text: str) -> bool:
        """Answers a question of the model's. False when it is not open (any more)."""
        return self._approvals.reply(request_id, text)

    def set_mode(self, mode: Mode) -> None:
        if mode != self.mode:
            self.mode = mode
            self.publish(SettingsChanged("mode", mode))

    @property
    def thinking(self) -> bool | int | None:
        return self._thinking

    def set_thinking(self, thinking: bool | int) -> None:
        """From the next request on. A number: think at most so many tokens."""
        self._thinking = thinking
        self._now = replace(self._now, thinking=bool(thinking))  # counts from the next epoch on
        if not len(self._history):
            self._prefix = self._now
        self.publish(SettingsChanged("thinking", word(thinking)))

    def tell_system(self, system: str) -> None:
        """What would stand at the beginning by now: told along with the next message, for that itself stays."""
        self._now = replace(self._now, system=system)

    async def compact(self, focus: str = "") -> Compacted | None:
        """Shortens the conversation, after the running turn if there is one. None where it would not become shorter.
        Raises AgentError when it was stopped or no summary could be had; nothing is lost then."""
        done = self._compactor.want(focus)
        self._idle.clear()
        self._wake.set()
        return await done

    async def spending(self) -> Spending:
        """Where the context goes."""
        ask = self._endpoint is not None or not self.can_ask  # nobody watches an engine start for a few figures
        return await spending(self.request(), self._compactor.counter, ask=ask)

    def server_changed(self, state: ServerState) -> None:
        """The supervisor's transitions, shown to whoever watches this session."""
        self._reading.server(state.endpoint)
        self._endpoint = state.endpoint or self._endpoint
        self.publish(ServerChanged(state))

    async def idle(self) -> None:
        await self._idle.wait()

    async def close(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
        await self.shell.stop()
        if not self._runner.done():
            await self.cancel()
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner
        self._bus.close()
        self._journal.close()

    # ---- what the turn calls
    def new_id(self) -> str:
        self._last_id += 1
        return f"m{self._last_id}"

    def request(self) -> ModelRequest:
        fixed = self._prefix
        return ModelRequest(
            fixed.system, fixed.tools, self._history.view(), self.max_tokens, fixed.thinking, self._thinking
        )

    async def mend_tools(self) -> bool:
        """The beginning changes, for the server could do nothing with it."""
        found = await self._late.mend(self._prefix.tools) if self._late else None
        if found is not None:
            self._prefix = self._now = replace(self._prefix, tools=found[0])
            self.publish(Notice("warning", found[1]))
        return found is not None

    def add_reply(self, message: AssistantMessage, seconds: float, sent: Mapping[str, Any] | None) -> None:
        self._history.add(message)
        self.publish(AssistantAdded(self.turn, message, seconds, self._reading.judge(sent, message)))
        self._compactor.reply_added()

    @property
    def endpoint(self) -> Endpoint | None:
        """The server as it was last seen."""
        return self._endpoint

    async def make_room(self, fault: ContextOverflow | None = None) -> bool:
        if fault is not None:
            return await self._compactor.after_overflow(fault)
        await self._compactor.before_step()
        return True

    def compacted(self, event: Compacted) -> None:
        self._history.compact(event)
        self.publish(event)

    def add_result(self, result: ResultAdded) -> None:
        self._history.add(result.message)
        self.publish(result)

    @property
    def steering(self) -> bool:
        return self._waiting.steering

    async def take_steering(self) -> bool:
        while text := self._waiting.words:
            beside = await self.mentions.beside(text)
            if text == self._waiting.words:  # nothing was added or taken back meanwhile
                self._add_user(self._waiting.take_steering(), steered=True, beside=beside)
                self._waiting.show()
                return True
        return False

    def publish(self, event: Event) -> None:
        if isinstance(event, Compacted):
            self._begin_epoch()
        if isinstance(event, DURABLE):
            self._compactor.saw(event)
        self._record.saw(event, self._prefix)
        self._bus.publish(event)

    def _complain(self, sentence: str) -> None:
        self._bus.publish(Notice("warning", sentence))

    # ---- the runner
    async def _run(self) -> None:
        while True:
            while self._waiting or self._compactor.wanted:
                if self._compactor.wanted:
                    await self._compactor.serve(self._watch)
                    continue
                result = await self._one_turn(self._waiting.next())
                self._waiting.too_late()
                if result.outcome == "failed" and result.kind != ContextOverflow.kind and self._waiting:
                    # it was said in the belief that this turn would succeed, and would mostly fail like it
                    self.publish(GivenBack("\n\n".join(self.take_back())))
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()

    async def _one_turn(self, said: Waiting) -> TurnResult:
        self.turn += 1
        started = self._clock.monotonic()
        beside = await self.mentions.watched(said.shown or said.text, self._watch)
        self._add_user(said.text, steered=False, shown=said.shown, points=said.points, beside=beside or NOTHING)
        self._waiting.show()
        turn = Turn(
            self, self._model, self._dispatch, self._history, self.publish, self._clock, self._reader, self._max_steps
        )
        turn.tally.rules = self._dispatch.rules(said.allowed)
        self._running = asyncio.get_running_loop().create_task(turn.run(), name=f"turn-{self.turn}")
        if beside is None:  # it was stopped while it was being looked up
            self._running.cancel()
        await asyncio.wait([self._running])
        result = result_of(self._running)
        self._running = None
        self._settle_open_calls()
        await self.changes.after(self.turn)
        unsent = self._history.take_back() if result.kind == ContextOverflow.kind else None
        seconds = self._clock.monotonic() - started
        end = TurnEnded(self.turn, result.outcome, result.detail, result.kind, seconds, turn.tally.waited)
        self.publish(end)
        if unsent is not None:
            self.publish(GivenBack(unsent.shown or unsent.text))
        return result

    def _watch(self, task: asyncio.Task[Any] | None) -> None:
        """What a stop would stop."""
        self._running = task

    def _add_user(
        self, text: str, *, steered: bool, shown: str = "", points: tuple[str, ...] = (), beside: Beside = NOTHING
    ) -> None:
        if tools := self._late.reach(self._prefix.tools) if self._late else "":
            self._prefix, self._now = replace(self._prefix, tools=tools), replace(self._now, tools=tools)
            self.publish(Notice("info", "Tools that reach MCP servers were added; the beginning is read anew, once."))
        told = (news(self._prefix, self._now, self._history.view()), note_for(self.mode, self._bus.past))
        told = (beside.text, *told, self._late.notes() if self._late else "")
        if any(told):
            text, shown = "\n\n".join(filter(None, (text, *told))), shown or text
        message = UserMessage(self.new_id(), text, shown, points)
        self._history.add(message)
        for event in (TurnStarted(self.turn, message, steered), *beside.said):
            self.publish(event)

    def _begin_epoch(self) -> None:
        """All is read anew, so what stands at the beginning may be brought up to date."""
        self._reading.epoch()
        self._prefix = self._now

    def _settle_open_calls(self) -> None:
        for call in self._history.open_calls():
            said = self._bus.progress_of(call.id).strip("\n")
            text = f"{INTERRUPTED_CALL} Its last words:\n{said[-LAST_WORDS:]}" if said else INTERRUPTED_CALL
            self.add_result(ResultAdded(call.id, call.name, text, failed=True, seconds=0.0))
