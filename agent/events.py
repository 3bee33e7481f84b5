"""All that a front end may learn, as frozen data. Durable events draw the whole conversation; transient ones only
make it live: losing them changes no final picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agent.forms import FormAsked, FormSettled
from agent.messages import AssistantMessage, Message, Timings, ToolMessage, Usage, UserMessage
from agent.processes import Process, ShellEnded, ShellStarted
from agent.progress import Phase

Outcome: TypeAlias = Literal["done", "interrupted", "failed", "limit", "denied"]
PlanKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "fetch", "think", "other"]
Decision: TypeAlias = Literal["once", "session", "always", "denied"]
Mending: TypeAlias = Literal["repaired", "coerced", "refused"]
Owner: TypeAlias = Literal["system", "tools", "message", "thinking", "template", "server", "compaction"]
ServerKind: TypeAlias = Literal["stopped", "starting", "ready", "stopping", "failed"]


# ---- durable
@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The user's message enters history. `steered`: it was given while the turn was already running."""

    turn: int
    message: UserMessage
    steered: bool = False


@dataclass(frozen=True, slots=True)
class Reread:
    """A part of the prompt that was read again though the server had it in its cache. `whose` bytes changed, and `what`
    about them, for the user. Template and server: none of what was sent has changed."""

    tokens: int
    whose: Owner
    what: str


@dataclass(frozen=True, slots=True)
class AssistantAdded:
    """One reply enters history. `seconds`: wall time of the request, prefill included. `reread`: what its prompt cost
    beyond what was new in it."""

    turn: int
    message: AssistantMessage
    seconds: float = 0.0
    reread: Reread | None = None


@dataclass(frozen=True, slots=True)
class CallPlanned:
    """What a call will do, before it does it. `preview`: the diff of an edit, or text. `mending`: what it took to read
    its arguments (broken JSON repaired, values coerced to the tool's schema), or that they could not be read."""

    call_id: str
    tool: str
    kind: PlanKind
    title: str
    paths: tuple[str, ...] = ()
    command: str | None = None
    preview: str = ""
    mending: tuple[Mending, ...] = ()


@dataclass(frozen=True, slots=True)
class PermissionSettled:
    """`by`: who decided; `why` names the rule where one did. `request_id` is empty when nobody had to be asked.
    `waited`: seconds until the answer."""

    call_id: str
    decision: Decision
    by: Literal["user", "mode", "rule", "nobody"]
    request_id: str = ""
    why: str = ""
    waited: float = 0.0


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
    """For the model `messages` now stand in place of all before; a new cache epoch starts. `summary`: the model's own
    words about what was dropped, "" where none were needed. `before` and `after`: tokens of the prompt, None where
    nobody has counted. `usage`, `timings` and `seconds`: of the request for the summary."""

    summary: str
    dropped_messages: int
    messages: tuple[Message, ...] = ()
    before: int | None = None
    after: int | None = None
    usage: Usage = Usage()
    timings: Timings = Timings()
    seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """What the user reads."""
        if self.dropped_messages:
            became = "became a summary" if self.summary else "were left out"
            what = f"{self.dropped_messages} messages {became}; what you said is kept"
        else:
            what = "long outputs were shortened"
        if self.before and self.after:
            return f"Compacted: {what} ({self.before:,} → {self.after:,} tokens)."
        return f"Compacted: {what}."


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
class FilesRestored:
    """Files were put back as they were before a turn, or (`redone`) as it had left them. `kept`: left alone, since
    someone has changed them meanwhile. `left_out`: what is not covered, such as repositories in the project."""

    turn: int
    paths: tuple[str, ...]
    kept: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    redone: bool = False

    @property
    def words(self) -> str:
        """For the user."""
        lines = [f"{'Done again' if self.redone else 'Undone'}: {_named(self.paths) or 'nothing'}."]
        if self.kept:
            lines.append(f"Left alone, since changed meanwhile or not to be written: {_named(self.kept)}.")
        if self.left_out:
            lines.append(f"Not covered, whatever commands did there: {_named(self.left_out)}.")
        return "\n".join(lines)


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


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
class Compacting:
    """The conversation is being summarised. `words`: written so far; None: it is over, whether it worked or not."""

    words: int | None = 0


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """`why`: the rule that asks, or what is special about it; "" for what the mode always asks. `session` and `always`:
    the rules that the decisions of these names would make; empty where it would be asked again all the same."""

    request_id: str
    plan: CallPlanned
    why: str = ""
    session: tuple[str, ...] = ()
    always: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """The model asks the user; any text may answer it, not only one of the options."""

    request_id: str
    call_id: str
    question: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """`text` has come and stays; `tail` stands behind it and may still change. None: as it was."""

    call_id: str
    text: str
    tail: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessesChanged:
    """All that runs in the background, and what waits for the user's input."""

    processes: tuple[Process, ...]


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
    """What the user said and nobody has read: the message of the turn that has just ended, which was too big to be sent
    and left the conversation, or what waited behind a turn that failed."""

    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    level: Literal["info", "warning", "error"]
    text: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model server that answers. `n_ctx` in tokens is what the server itself reports; None where it does not.
    `speculative`: what /slots says; None where there are no slots to ask (not a llama-server). `rung`: how our own
    engine drafts (dflash, mtp, ngram, plain), as checked by its first replies; `wanted`: how its profile asks for.
    `plan`: the table of the memory it needs. `rewrites`: what of earlier messages its chat template renders anew in
    each request (keys of REWRITES); (): nothing, so that its cache always holds; None: it cannot be asked."""

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
    plan: str = ""
    rewrites: tuple[str, ...] | None = None


# What a chat template may do to earlier bytes: the keys of `Endpoint.rewrites`, in words for the user.
REWRITES: Mapping[str, str] = {
    "reply": "begins a reply in history otherwise than the model wrote it",
    "trim": "cuts blank space off the end of a reply",
    "call": "renders a tool call at another place than the model wrote it",
    "order": "sorts the arguments of a call",
    "beside": "moves the text beside a call",
    "turn": "renders a finished turn anew when the next one begins",
    "thought": "drops thoughts from history",
    "switch": "moves the whole conversation when thinking is switched",
}


@dataclass(frozen=True, slots=True)
class ServerState:
    """`phase` while starting (what it is doing), `why` and `last_words` when failed, `endpoint` when ready. `note`:
    what the user should know of this start, such as that it does not draft as the profile says. `model`: what to call
    the model that it is about; "" where that is not known before it answers."""

    kind: ServerKind
    phase: Phase | None = None
    why: str = ""
    last_words: tuple[str, ...] = ()
    endpoint: Endpoint | None = None
    note: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class ServerChanged:
    state: ServerState


DurableEvent: TypeAlias = (
    TurnStarted
    | AssistantAdded
    | CallPlanned
    | PermissionSettled
    | ResultAdded
    | Compacted
    | TurnEnded
    | FilesRestored
    | ShellStarted
    | ShellEnded
    | SettingsChanged
)
TransientEvent: TypeAlias = (
    StepStarted
    | TextDelta
    | ThinkingDelta
    | CallDelta
    | PrefillProgress
    | Compacting
    | PermissionAsked
    | QuestionAsked
    | FormAsked
    | FormSettled
    | ToolProgress
    | ProcessesChanged
    | StepRetrying
    | QueueChanged
    | GivenBack
    | Notice
    | ServerChanged
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
    FilesRestored,
    ShellStarted,
    ShellEnded,
    SettingsChanged,
)
