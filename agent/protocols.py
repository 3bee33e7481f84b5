"""READ THIS FIRST: what the core asks of its neighbours. Adapters implement these; only `wiring` knows which."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from pydantic import BaseModel

from agent.events import DurableEvent, Endpoint, PlanKind, Process, ServerState
from agent.messages import Message, Prefix, Timings, ToolOutput, Usage
from agent.survey import Choice, Ready, Survey


def _ignore(_text: str) -> None:
    pass


# ---- tools
@dataclass(frozen=True, slots=True)
class Access:
    """One thing of a call that a permission rule may speak of.

    act: run a command, read or edit a file, or use a tool about which nothing finer can be said. what: one simple
    command as written, an absolute path with links followed, or for a tool what it is used on. forms: other ways to say
    the same (a command without its quotes, a path before its links), which rules that forbid look at too. harmless: a
    command that only looks. outside: of the project, or a protected place in it. through: a command that only starts
    another one, which is judged by itself.
    """

    act: Literal["run", "read", "edit", "use"]
    what: str
    forms: tuple[str, ...] = ()
    harmless: bool = False
    outside: bool = False
    through: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a call will do. Permission, checkpoint, the transcript's header and the diff the user approves all read
    this one plan.

    paths: absolute, resolved paths it touches. command: the shell line of an execute. preview: a unified diff of an
    edit, or text. stamp: hash of the file content that was seen; run() refuses when the file has changed since.
    outside: a path leads out of the project, or to a protected place (.git, .dflash, shell start-up files).
    accesses: what rules may speak of, one by one; empty: the use of the tool as such. unclear: why it cannot be said
    what the command does (its grammar, a name that is only known when it runs); "" when it can. tool: the
    name of the tool that is really meant, where the called one only leads to it.
    """

    kind: PlanKind
    title: str
    paths: tuple[str, ...] = ()
    command: str | None = None
    preview: str = ""
    stamp: str | None = None
    outside: bool = False
    accesses: tuple[Access, ...] = ()
    unclear: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running tool may use. `progress` takes text as it appears, `tail` what stands behind all of it and may
    still change (each time the whole of it); they never block. `turn` counts from 1. `ask` shows the user a question
    with options and waits for the answer; None where nobody is there."""

    call_id: str
    plan: Plan
    progress: Callable[[str], None]
    tail: Callable[[str], None] = _ignore
    turn: int = 0
    ask: Callable[[str, tuple[str, ...]], Awaitable[str]] | None = None


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


@dataclass(frozen=True, slots=True)
class Offered:
    """Something that a message may mention. `name` as it stands behind the `@`; `more`: the name goes on behind that
    (a folder, a template)."""

    name: str
    about: str = ""
    more: bool = False


class Mentionable(Protocol):
    """One kind of things that a message may mention by `@name`."""

    def find(self, name: str) -> tuple[Tool, BaseModel] | None:
        """What shows it, and the arguments; None where it is none of this kind. Quick."""
        ...

    async def offers(self, written: str) -> Sequence[Offered]:
        """What may be meant by so much of a name, best first. Blocks nothing, however much there is."""
        ...


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
    began; some templates say so at its start, and it must not move when thinking is switched. `thinking`: whether the
    model may think before it answers, or at most how many tokens; None: as the server was started. `may_call` False:
    an answer in words."""

    system: str
    tools: str
    messages: tuple[Message, ...]
    max_tokens: int | None = None
    think_first: bool = False
    thinking: bool | int | None = None
    may_call: bool = True


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
    async def count(self, request: ModelRequest) -> int | None:
        """Tokens of the request as the server would render it; None where it cannot say, or does not answer."""
        ...

    async def read_ahead(self, request: ModelRequest) -> int | None:
        """Has the server read what `request` will begin with once the user's next message ends it. Returns the tokens
        that were read; None where nothing was: the server cannot, works for somebody else, or holds it already. Raises
        a ModelFault. Cancelling closes the connection at once."""
        ...


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the arguments of a call say. `fields` None: they cannot be read without guessing, and `fault` says why in a
    few words. `mended`: they were not in the format that was asked for."""

    fields: Mapping[str, Any] | None
    mended: bool = False
    fault: str = ""


class CallReader(Protocol):
    """Reads calls as models really write them. It reads or refuses, and never completes what was cut short."""

    def arguments(self, raw: str) -> Arguments: ...
    def calls_in(self, text: str, tools: Collection[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Calls that stand in an answer as text: the answer without them, and name and arguments of each. Without
        any, the answer as it is."""
        ...


class TokenCounter(Protocol):
    """How many tokens something is. `estimate` is instant and rough; `learn` tells it what texts that it would have
    estimated so really were; `prepare` makes it finer. `exact` asks the server, and is None where that cannot say. So
    is `n_ctx`, how many its context holds; it waits for a server that starts, and raises AgentError where there is
    none to be had."""

    async def n_ctx(self) -> int | None: ...
    def estimate(self, text: str) -> int: ...
    def learn(self, estimated: int, tokens: int) -> None: ...
    async def prepare(self) -> None: ...
    async def exact(self, request: ModelRequest) -> int | None: ...


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


# ---- MCP servers
class LateTools(Protocol):
    """Tools that come, change and go while a session runs; its tool list stays as it was fixed."""

    def tool(self, name: str) -> Tool | None:
        """One that is called by its own name, in the list or not."""
        ...

    def notes(self) -> str:
        """What the model should know of changes since it was last told; each once, "" when there are none."""
        ...

    def reach(self, tools: str) -> str:
        """A tool list that reaches them, where `tools` cannot and there is one to reach; else ""."""
        ...

    async def mend(self, tools: str) -> tuple[str, str] | None:
        """Another form of a tool list that the server refuses, and what to tell the user; None when there is none."""
        ...


class Setup(Protocol):
    """Gets what a model server needs and starts it, before there is a session."""

    async def survey(self) -> Survey:
        """What this machine has and could run; asks nobody else. May take seconds."""
        ...

    async def get_ready(self, choice: Choice, watch: Callable[[ServerState], None]) -> Ready:
        """Builds, fetches, loads and checks; `watch` hears how far it is. Cancelled, it stops all of that and keeps
        what has come. Raises AgentError."""
        ...


# ---- store
class Journal(Protocol):
    """Append-only record of one session's durable events; `append` returns when the line is with the system. `fix`
    notes, apart from the events, the prefix that holds from here on. `look` raises OSError when what was written would
    not be found again."""

    @property
    def session_id(self) -> str: ...
    def fix(self, prefix: Prefix) -> None: ...
    def append(self, event: DurableEvent) -> None: ...
    def look(self) -> None: ...
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


class Restored(Protocol):
    """As in FilesRestored."""

    @property
    def turn(self) -> int: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def kept(self) -> tuple[str, ...]: ...
    @property
    def left_out(self) -> tuple[str, ...]: ...


class Checkpoints(Protocol):
    """What turns did to files. `before` is called before a call changes `files`, or (`whole`) may change anything, and
    returns what the user should know, mostly nothing. `undo`, `redo` and `changed` raise AgentError in the user's
    words."""

    async def before(self, turn: int, files: Sequence[str], *, whole: bool) -> str: ...
    async def after(self, turn: int) -> None: ...
    async def undo(self) -> Restored: ...
    async def redo(self) -> Restored: ...
    async def changed(self, turn: int | None = None) -> list[tuple[str, bytes, bytes]]: ...
    def last(self) -> tuple[int, list[str]] | None: ...


class Clock(Protocol):
    """`now`: unix seconds. `monotonic`: seconds that never go back."""

    def now(self) -> float: ...
    def monotonic(self) -> float: ...
