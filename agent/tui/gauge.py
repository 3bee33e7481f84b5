"""What the engine is doing now, folded from events and the time they came. Feeds the status line; knows no widget."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agent.events import (
    AssistantAdded,
    CallDelta,
    Compacted,
    Compacting,
    Endpoint,
    Event,
    PermissionAsked,
    PermissionSettled,
    PrefillProgress,
    Process,
    ProcessesChanged,
    QuestionAsked,
    ResultAdded,
    ServerChanged,
    ServerState,
    SettingsChanged,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
)
from agent.messages import Timings

Activity: TypeAlias = Literal["idle", "waiting", "reading", "writing", "tool", "asking", "compacting"]
WINDOW = 2.0  # seconds of the moving rate
CHARACTERS_PER_TOKEN = 3.6  # until the first reply of the session has told its own


@dataclass(slots=True)
class Gauge:
    """`since`: monotonic seconds when the present activity began; `heard`: when the last piece of a reply came.
    `words`: of a summary, so far."""

    activity: Activity = "idle"
    since: float = 0.0
    heard: float = 0.0
    server: ServerState | None = None
    server_since: float = 0.0
    endpoint: Endpoint | None = None
    model: str = ""
    mode: str = "ask"
    branch: str = ""
    timings: list[Timings] = field(default_factory=list[Timings])
    context: int | None = None
    prefill: PrefillProgress | None = None
    processes: tuple[Process, ...] = ()
    prefill_at: float = 0.0
    words: int = 0
    _ratio: float = CHARACTERS_PER_TOKEN
    _written: int = 0
    _in_turn: bool = False
    _window: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    @property
    def busy(self) -> bool:
        """Is there anything on the line that changes by itself?"""
        return self.activity != "idle" or (self.server is not None and self.server.kind in ("starting", "stopping"))

    def silent(self, now: float) -> bool:
        """Has a reply that began to come stopped coming?"""
        return self.activity == "writing" and now - self.heard >= WINDOW

    def live_rate(self, now: float) -> float | None:
        """Estimated tokens a second over the last two seconds."""
        while self._window and self._window[0][0] < now - WINDOW:
            self._window.popleft()
        if len(self._window) < 2:
            return None
        span = max(0.3, now - self._window[0][0])
        return sum(n for _, n in self._window) / self._ratio / span

    def apply(self, event: Event, now: float) -> None:
        match event:
            case TurnStarted(steered=False):
                self.timings, self._in_turn = [], True
                self._become("waiting", now)
            case StepStarted():
                self._written, self.prefill = 0, None
                self._window.clear()
                self._become("waiting", now)
            case PrefillProgress():
                self.prefill, self.prefill_at = event, now
                self._become("reading", now)
            case TextDelta(text=text) | ThinkingDelta(text=text) | CallDelta(text=text):
                self._become("writing", now)
                self.heard = now
                self._written += len(text)
                self._window.append((now, len(text)))
            case AssistantAdded():
                self._reply(event, now)
            case PermissionAsked() | QuestionAsked():
                self._become("asking", now)
            case PermissionSettled() if self.activity != "idle":
                self._become("tool", now)
            case ResultAdded() if self.activity != "idle":
                self._become("waiting", now)
            case TurnEnded():
                self._in_turn = False
                self._window.clear()
                self._become("idle", now)
            case _:
                self._beside(event, now)

    def _beside(self, event: Event, now: float) -> None:
        match event:
            case Compacting(words=None):
                self.prefill = None
                self._become("waiting" if self._in_turn else "idle", now)
            case Compacting(words=words):
                self.words = words or 0
                self._become("compacting", now)
            case Compacted(after=after):
                self.context = after
            case ServerChanged(state=state):
                if self.server is None or self.server.kind != state.kind:
                    self.server_since = now
                if state.model and state.model != self.model:
                    self.model, self.endpoint = state.model, None
                self.server, self.endpoint = state, state.endpoint or self.endpoint
            case SettingsChanged(key="mode", value=value):
                self.mode = value
            case ProcessesChanged(processes=processes):
                self.processes = processes
            case _:
                pass

    def _become(self, activity: Activity, now: float) -> None:
        if activity != self.activity:
            self.activity, self.since = activity, now

    def _reply(self, event: AssistantAdded, now: float) -> None:
        timings, usage = event.message.timings, event.message.usage
        if timings != Timings():  # a reply that was stopped has none
            self.timings.append(timings)
        if timings.predicted_n and self._written > 20:
            self._ratio = min(8.0, max(1.0, self._written / timings.predicted_n))
        if usage.prompt_tokens is not None:
            self.context = usage.prompt_tokens + (usage.generated_tokens or 0)
        elif timings.prompt_n is not None:
            self.context = (timings.cache_n or 0) + timings.prompt_n + (timings.predicted_n or 0)
        self._become("tool" if event.message.calls else self.activity, now)
