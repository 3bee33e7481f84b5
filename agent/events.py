"""All that a front end may learn, as frozen data. Durable events draw the whole conversation; transient ones only
make it live: losing them changes no final picture."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from agent.messages import AssistantMessage, ToolMessage, UserMessage

Outcome: TypeAlias = Literal["done", "interrupted", "failed", "limit", "denied"]
PlanKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "fetch", "think", "other"]
Decision: TypeAlias = Literal["once", "session", "always", "denied"]
ServerKind: TypeAlias = Literal["stopped", "starting", "ready", "stopping", "failed"]


# ---- durable
@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The user's message enters history. `steered`: it was given while the turn was already running."""

    turn: int
    message: UserMessage
    steered: bool = False


@dataclass(frozen=True, slots=True)
class AssistantAdded:
    """One reply enters history. `seconds`: wall time of the request, prefill included."""

    turn: int
    message: AssistantMessage
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CallPlanned:
    """What a call will do, before it does it. `preview`: the diff of an edit, or text."""

    call_id: str
    tool: str
    kind: PlanKind
    title: str
    paths: tuple[str, ...] = ()
    command: str | None = None
    preview: str = ""


@dataclass(frozen=True, slots=True)
class PermissionSettled:
    """`by`: who decided. `request_id` is empty when nobody had to be asked."""

    call_id: str
    decision: Decision
    by: Literal["user", "mode", "rule", "nobody"]
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class ResultAdded:
    """`seconds`: how long the tool ran, without waiting for permission. `display` is empty where `text` is shown."""

    call_id: str
    tool: str
    text: str
    failed: bool
    seconds: float
    display: str = ""

    @property
    def message(self) -> ToolMessage:
        return ToolMessage(self.call_id, self.tool, self.text, self.failed)


@dataclass(frozen=True, slots=True)
class Compacted:
    """History before this point is replaced by `summary` for the model; a new cache epoch starts."""

    summary: str
    dropped_messages: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """`kind` and `detail` name the failure ("" when done). `seconds` is wall time, `waited` the part spent asking.
    After the kind `context` a user's message that nothing has answered is no longer part of the conversation."""

    turn: int
    outcome: Outcome
    detail: str = ""
    kind: str = ""
    seconds: float = 0.0
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    key: str
    value: str


# ---- transient
@dataclass(frozen=True, slots=True)
class StepStarted:
    """One request to the model begins; its reply will be `message_id`."""

    turn: int
    step: int
    message_id: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """Arguments of a call while the model writes them. `index` counts the calls of one reply from 0."""

    message_id: str
    index: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """llama-server's prompt_progress, in tokens: in all, found in the cache, processed so far (cache included)."""

    message_id: str
    total: int
    cache: int
    processed: int
    time_ms: float


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    request_id: str
    plan: CallPlanned


@dataclass(frozen=True, slots=True)
class ToolProgress:
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class StepRetrying:
    turn: int
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """What waits to be sent, in that order; the first `steering` of them join the running turn."""

    texts: tuple[str, ...]
    steering: int = 0


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The user's message of the turn that has just ended: it was too big to be sent and left the conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    level: Literal["info", "warning", "error"]
    text: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model server that answers. `n_ctx` in tokens is what the server itself reports; None where it does not.
    `speculative`: what /slots says; None where there are no slots to ask (not a llama-server). `rung`: how our own
    engine drafts (dflash, mtp, ngram, plain), as checked by its first replies; `wanted`: how its profile asks for."""

    base_url: str
    api_key: str = field(repr=False)
    model: str
    n_ctx: int | None = None
    speculative: bool | None = None
    engine: str = ""
    attached: bool = False
    profile: str = ""
    rung: str = ""
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class ServerState:
    """`phase` while starting (what it is doing), `why` and `last_words` when failed, `endpoint` when ready. `note`:
    what the user should know of this start, such as that it does not draft as the profile says."""

    kind: ServerKind
    phase: str = ""
    why: str = ""
    last_words: tuple[str, ...] = ()
    endpoint: Endpoint | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ServerChanged:
    state: ServerState


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """Bytes; `rate` in bytes/s over the last seconds."""

    file: str
    done: int
    total: int
    rate: float


DurableEvent: TypeAlias = (
    TurnStarted
    | AssistantAdded
    | CallPlanned
    | PermissionSettled
    | ResultAdded
    | Compacted
    | TurnEnded
    | SettingsChanged
)
TransientEvent: TypeAlias = (
    StepStarted
    | TextDelta
    | ThinkingDelta
    | CallDelta
    | PrefillProgress
    | PermissionAsked
    | ToolProgress
    | StepRetrying
    | QueueChanged
    | GivenBack
    | Notice
    | ServerChanged
    | DownloadProgress
)
Event: TypeAlias = DurableEvent | TransientEvent

DURABLE = (
    TurnStarted,
    AssistantAdded,
    CallPlanned,
    PermissionSettled,
    ResultAdded,
    Compacted,
    TurnEnded,
    SettingsChanged,
)


def merge(earlier: Event, later: Event) -> Event | None:
    """One event that says what both say, or None where both are needed. Lets a slow reader catch up without loss."""
    match earlier, later:
        case TextDelta(message_id=a), TextDelta(message_id=b) if a == b:
            return replace(earlier, text=earlier.text + later.text)
        case ThinkingDelta(message_id=a), ThinkingDelta(message_id=b) if a == b:
            return replace(earlier, text=earlier.text + later.text)
        case CallDelta(message_id=a, index=i), CallDelta(message_id=b, index=j) if (a, i) == (b, j):
            return replace(earlier, text=earlier.text + later.text)
        case ToolProgress(call_id=a), ToolProgress(call_id=b) if a == b:
            return replace(earlier, text=earlier.text + later.text)
        case PrefillProgress(message_id=a), PrefillProgress(message_id=b) if a == b:
            return later
        case (ServerChanged(), ServerChanged()) | (QueueChanged(), QueueChanged()):
            return later
        case DownloadProgress(file=a), DownloadProgress(file=b) if a == b:
            return later
        case _:
            return None
