"""When a conversation outgrows the context it goes on shorter. Triggered by real numbers alone: what the server has
counted, what it answers when asked, or its refusal. Nothing changes until the shorter conversation is complete, so that
whatever fails or is stopped on the way loses nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agent.core.budget import FRAME, ROUGH, Allowance, Weigh, counted, reserved, weight
from agent.core.history import History
from agent.core.remains import Remains
from agent.core.shortening import HEAD, ask_text, shorten, split, view_for_summary
from agent.errors import AgentError, ContextOverflow, ModelFault
from agent.events import Compacted, Compacting, DurableEvent, Event, Notice, PrefillProgress
from agent.messages import AssistantMessage, Message, Timings, Usage, UserMessage
from agent.protocols import Clock, FinishChunk, ModelClient, ModelRequest, PrefillChunk, TextChunk, TokenCounter

SCALES = (1.0, 0.5, 0.25, 0.1)  # of the allowance; tried one after another until it fits
MARGIN = 64  # tokens that a template may add for the request of a summary
LEAST_ROOM = 64  # tokens for messages; with less there is no conversation
LEARN_FROM = 50  # tokens; the frame of a template outweighs a shorter text
SUMMARY_THINKING = 256  # tokens; thinking that is on stays on, since turning it off may change the prompt's beginning


STOPPED = "Compaction was stopped; the conversation is as it was."


class CompactionHost(Protocol):
    """The session, as far as compaction needs it. `compacted` puts the event into journal and history."""

    def new_id(self) -> str: ...
    def request(self) -> ModelRequest: ...
    def compacted(self, event: Compacted) -> None: ...


@dataclass(frozen=True, slots=True)
class _Summary:
    text: str = ""
    usage: Usage = Usage()
    timings: Timings = Timings()
    seconds: float = 0.0


class Compactor:
    """One per session. `past`: its durable events so far."""

    def __init__(
        self,
        host: CompactionHost,
        history: History,
        model: ModelClient,
        counter: TokenCounter,
        publish: Callable[[Event], None],
        clock: Clock,
        past: Iterable[DurableEvent],
    ) -> None:
        self._host = host
        self._history = history
        self._model = model
        self.counter = counter
        self._publish = publish
        self._clock = clock
        self._wanted: deque[tuple[str, asyncio.Future[Compacted | None]]] = deque()
        self._fixed: int | None = None
        self._answered = True  # has there been a reply since the last compaction?
        self._number = 0  # of compactions so far
        self._remains = Remains()
        for event in past:
            self.saw(event)

    # ---- when the user asks for it
    @property
    def wanted(self) -> bool:
        return bool(self._wanted)

    def want(self, focus: str) -> asyncio.Future[Compacted | None]:
        """Done once `serve` has come to it."""
        done: asyncio.Future[Compacted | None] = asyncio.get_running_loop().create_future()
        self._wanted.append((focus, done))
        return done

    def drop(self) -> None:
        """Nothing that was wanted is wanted any more."""
        while self._wanted:
            _finish(self._wanted.popleft()[1], AgentError(STOPPED))

    async def serve(self, watch: Callable[[asyncio.Task[Any] | None], None]) -> None:
        """`watch` gets the task, to stop it, and None when it is over."""
        focus, done = self._wanted.popleft()
        task = asyncio.get_running_loop().create_task(self.on_request(focus), name="compaction")
        watch(task)
        await asyncio.wait([task])
        watch(None)
        _finish(done, AgentError(STOPPED) if task.cancelled() else task.exception() or task.result())

    # ---- when it must be
    def saw(self, event: DurableEvent) -> None:
        """Each durable event of the session, as it happens."""
        self._remains.add(event)
        self._number += isinstance(event, Compacted)

    def reply_added(self) -> None:
        """The server has counted: from now on that is known, and estimates become better."""
        self._answered = True
        view = self._history.view()
        last = view[-1]
        prompt = last.usage.prompt_tokens if isinstance(last, AssistantMessage) else None
        if prompt is None:
            return
        before = counted(view[:-1])
        estimated, tokens = weight(before.since, self.counter.estimate), prompt - (before.tokens or 0)
        if before.tokens is None:
            estimated += self._estimated_fixed(self._host.request())
        if estimated >= LEARN_FROM and tokens > 0:
            self.counter.learn(estimated, tokens)

    async def before_step(self) -> None:
        """Compacts if the next request and its reply would not fit. Once between two replies: if that was not enough,
        trying again would not help. What fails here is no reason to stop: the request itself will tell."""
        try:
            n_ctx = await self.counter.n_ctx()
        except ModelFault:
            return
        if n_ctx is None or not self._answered or await self._fits(n_ctx):
            return
        try:
            await self._compact(n_ctx, "", self.counter.estimate, fallback=False)
        except ModelFault as fault:
            self._publish(Notice("warning", f"The conversation could not be compacted: {fault}"))

    async def after_overflow(self, fault: ContextOverflow) -> bool:
        """Whether the refused request is worth one more try. Without the model's help if need be."""
        request = self._host.request()
        estimated = self._estimated(request)
        n_ctx = fault.n_ctx or await self.counter.n_ctx() or estimated
        tokens = fault.prompt_tokens or max(estimated, n_ctx + 1)
        self.counter.learn(estimated, tokens)
        error = max(1.0, tokens / max(1, self._estimated(request)))  # what learning has left of it

        def weigh(text: str) -> int:
            return int(self.counter.estimate(text) * error)

        return await self._compact(n_ctx, "", weigh, fallback=True, summarise=self._answered) is not None

    async def on_request(self, focus: str) -> Compacted | None:
        """None where it would not become shorter. Raises AgentError where no summary is to be had."""
        request = self._host.request()
        n_ctx = await self.counter.n_ctx() or 2 * self._estimated(request)
        return await self._compact(n_ctx, focus, self.counter.estimate, fallback=False)

    async def _fits(self, n_ctx: int) -> bool:
        request = self._host.request()
        limit = n_ctx - reserved(n_ctx, request.max_tokens)
        known = counted(request.messages)
        since = weight(known.since, self.counter.estimate)
        base = self._estimated_fixed(request) if known.tokens is None else known.tokens
        if base + ROUGH * since <= limit:
            return True
        exact = await self.counter.exact(request)
        if exact is not None:
            return exact <= limit or exact > n_ctx  # what the server would refuse is for its refusal to prove
        return known.tokens is None or known.tokens <= limit

    # ---- how
    async def _compact(
        self, n_ctx: int, focus: str, weigh: Weigh, *, fallback: bool, summarise: bool = True
    ) -> Compacted | None:
        """None when it would not fit or not become shorter. `fallback`: go on without a summary where none is to be
        had."""
        await self.counter.prepare()
        request = self._host.request()
        limit = n_ctx - reserved(n_ctx, request.max_tokens)
        room = min(limit - await self._fixed_tokens(request), weight(request.messages, weigh))
        allowance = Allowance.of(room)
        if room < LEAST_ROOM or await self._shorter(request, "", room, limit, weigh) is None:
            return None
        dropped, _ = split(request.messages, allowance, weigh)
        summary = _Summary()
        if summarise and any(isinstance(m, AssistantMessage) for m in dropped):
            summary = await self._summary_if_any(request, n_ctx, allowance.summary, focus, weigh, fallback)
        found = await self._shorter(request, summary.text, room, limit, weigh)
        if found is None:
            return None
        count, messages, after = found
        before = await self.counter.exact(request) or counted(request.messages).tokens
        self._answered = False
        self._fixed = None  # a new epoch may begin with other tools
        event = Compacted(
            summary.text, count, messages, before, after, summary.usage, summary.timings, round(summary.seconds, 3)
        )
        self._host.compacted(event)
        return event

    async def _shorter(
        self, request: ModelRequest, summary: str, room: int, limit: int, weigh: Weigh
    ) -> tuple[int, tuple[Message, ...], int | None] | None:
        """Messages dropped, the conversation that is left, its tokens where the server can say; None: no gain."""
        head_id = f"{HEAD}-{self._number + 1}"
        fixed, size = self._estimated_fixed(request), weight(request.messages, weigh)
        for scale in SCALES:
            count, messages = shorten(
                request.messages, self._remains, summary, head_id, Allowance.of(room, scale), weigh
            )
            after = await self.counter.exact(replace(request, messages=messages))
            small = weight(messages, weigh)
            if small < size and (fixed + small if after is None else after) <= limit:
                return count, messages, after
        return None

    async def _summary_if_any(
        self, request: ModelRequest, n_ctx: int, tokens: int, focus: str, weigh: Weigh, fallback: bool
    ) -> _Summary:
        self._publish(Compacting())
        try:
            return await self._summary(request, n_ctx, tokens, focus, weigh)
        except ModelFault as fault:
            if not fallback and not isinstance(fault, ContextOverflow):
                raise
            return _Summary()  # the list of what was done has to do
        finally:
            self._publish(Compacting(None))

    async def _summary(self, request: ModelRequest, n_ctx: int, tokens: int, focus: str, weigh: Weigh) -> _Summary:
        """Asked as the next message of the conversation, so that the server has read nearly all of it already."""
        thinking = SUMMARY_THINKING if request.thinking else request.thinking
        most = tokens + (SUMMARY_THINKING if thinking else 0)
        question = UserMessage(self._host.new_id(), ask_text(n_ctx, tokens, focus))
        room = n_ctx - most - MARGIN - weight([question], weigh)
        shown = view_for_summary(request.messages, self._estimated_fixed(request), room, weigh)
        if not shown:
            return _Summary()
        asked = replace(request, messages=(*shown, question), max_tokens=most, may_call=False, thinking=thinking)
        started, written, words, end = self._clock.monotonic(), list[str](), 0, None
        stream = self._model.stream(asked)
        try:
            async for chunk in stream:
                match chunk:
                    case PrefillChunk(total=total, cache=cache, processed=processed, time_ms=ms):
                        self._publish(PrefillProgress(question.id, total, cache, processed, ms))
                    case TextChunk(text=text):
                        written.append(text)
                        words += len(text.split())
                        self._publish(Compacting(words))
                    case FinishChunk():
                        end = chunk
                    case _:
                        pass
        finally:
            await stream.aclose()
        if end is None or end.reason is None:
            return _Summary()
        return _Summary("".join(written).strip(), end.usage, end.timings, self._clock.monotonic() - started)

    # ---- sizes
    async def _fixed_tokens(self, request: ModelRequest) -> int:
        if self._fixed is None:
            self._fixed = await self.counter.exact(replace(request, messages=()))
        return self._estimated_fixed(request) if self._fixed is None else self._fixed

    def _estimated_fixed(self, request: ModelRequest) -> int:
        if self._fixed is not None:
            return self._fixed
        return self.counter.estimate(request.system) + self.counter.estimate(request.tools) + FRAME

    def _estimated(self, request: ModelRequest) -> int:
        return self._estimated_fixed(request) + weight(request.messages, self.counter.estimate)


def _finish(done: asyncio.Future[Compacted | None], end: BaseException | Compacted | None) -> None:
    """Whoever waited for it may be gone."""
    if done.done():
        return
    if isinstance(end, BaseException):
        done.set_exception(end)
    else:
        done.set_result(end)
