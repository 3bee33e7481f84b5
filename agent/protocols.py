"""READ THIS FIRST: what the core asks of its neighbours. Adapters implement these; only `wiring` knows which."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from pydantic import BaseModel

from agent.events import DurableEvent, Endpoint, PlanKind, Process, ServerState
from agent.messages import Message, Prefix, Timings, ToolOutput, Usage


def _ignore(_text: str) -> None:
    pass


# ---- tools
@dataclass(frozen=True, slots=True)
class Plan:
    """What a call will do. Permission, checkpoint, the transcript's header and the diff the user approves all read
    this one plan.

    paths: absolute, resolved paths it touches. command: the shell line of an execute. preview: a unified diff of an
    edit, or text. stamp: hash of the file content that was seen; run() refuses when the file has changed since.
    outside: a path leads out of the project, or to a protected place (.git, .dflash, shell start-up files).
    """

    kind: PlanKind
    title: str
    paths: tuple[str, ...] = ()
    command: str | None = None
    preview: str = ""
    stamp: str | None = None
    outside: bool = False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running tool may use. `progress` takes text as it appears, `tail` what stands behind all of it and may
    still change (each time the whole of it); they never block."""

    call_id: str
    plan: Plan
    progress: Callable[[str], None]
    tail: Callable[[str], None] = _ignore


class Tool(Protocol):
    """A tool of the model. `plan` is pure and quick and raises ToolFailure for what cannot work; `run` raises
    ToolFailure for what the model should read as an error, and may be cancelled at any await."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def params(self) -> type[BaseModel]: ...
    def plan(self, params: Any) -> Plan: ...
    async def run(self, params: Any, ctx: ToolContext) -> ToolOutput: ...


class Processes(Protocol):
    """The commands that still run. `on_change` hears of each change of what runs in the background or waits for input;
    `type_into` is a line that the user types there: False where nobody reads it any more; `stop` ends one (by id) with
    all that it started and says how that went. Raises ToolFailure for an id that is not there."""

    on_change: Callable[[tuple[Process, ...]], None]

    def list(self) -> tuple[Process, ...]: ...
    def type_into(self, process_id: str, text: str) -> bool: ...
    async def stop(self, process_id: str) -> str: ...


# ---- model
@dataclass(frozen=True, slots=True)
class ModelRequest:
    """`tools` is the canonical JSON text of the tool list ("" for none): serialised once a session, so that its
    bytes never change. `max_tokens` None: the server's own limit. `think_first`: thinking was on when the conversation
    began; some templates say so at its start, and it must not move when thinking is switched."""

    system: str
    tools: str
    messages: tuple[Message, ...]
    max_tokens: int | None = None
    think_first: bool = False


@dataclass(frozen=True, slots=True)
class SentChunk:
    """Comes first: the body of the request, JSON data, as it goes out."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TextChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingChunk:
    text: str


@dataclass(frozen=True, slots=True)
class CallChunk:
    """A piece of a call; `id` and `name` come once (or again in each piece, depending on the server)."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    total: int
    cache: int
    processed: int
    time_ms: float


@dataclass(frozen=True, slots=True)
class FinishChunk:
    """Exactly one, last. `reason` None: the stream ended without a word, which the core takes as broken off."""

    reason: Literal["stop", "tool_calls", "length"] | None
    usage: Usage
    timings: Timings


ModelChunk: TypeAlias = SentChunk | TextChunk | ThinkingChunk | CallChunk | PrefillChunk | FinishChunk


class ModelClient(Protocol):
    """Streams one reply; raises a ModelFault. Closing the generator or cancelling its task closes the connection,
    which makes the server stop generating."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]: ...


# ---- engine
class Server(Protocol):
    """The model server. Callers never look at `state` first: they await `ensure_ready`, so a crash heals on the next
    request. Raises RuntimeFailure (could not be started) or ServerUnavailable (attached and not there)."""

    @property
    def state(self) -> ServerState: ...
    def suspect(self, why: str) -> None:
        """Something was wrong with a reply: the server is looked at before the next one."""
        ...

    async def ensure_ready(self) -> Endpoint: ...
    async def stop(self) -> None: ...


# ---- store
class Journal(Protocol):
    """Append-only record of one session's durable events; `append` returns when the line is with the system. `fix`
    notes, apart from the events, the prefix that holds from here on."""

    @property
    def session_id(self) -> str: ...
    def fix(self, prefix: Prefix) -> None: ...
    def append(self, event: DurableEvent) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """`title` is the first line of the first message; `when` is unix seconds of the last write."""

    id: str
    title: str
    folder: str
    when: float


class Archive(Protocol):
    """All sessions on this machine. `load` raises ConfigError for an unknown id."""

    def list(self, folder: Path | None = None) -> tuple[SessionInfo, ...]: ...
    def load(self, session_id: str) -> tuple[DurableEvent, ...]: ...
    def prefix(self, session_id: str) -> Prefix | None:
        """The newest one; None: the session is from before it was noted."""
        ...

    def create(self, folder: Path) -> Journal: ...
    def reopen(self, session_id: str) -> Journal: ...
    def fork(self, session_id: str) -> str:
        """The id of a copy. Raises ConfigError."""
        ...

    def delete(self, session_id: str) -> None:
        """Raises ConfigError for an unknown id, or where another process has it open."""
        ...


class Clock(Protocol):
    """`now`: unix seconds. `monotonic`: seconds that never go back."""

    def now(self) -> float: ...
    def monotonic(self) -> float: ...
