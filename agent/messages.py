"""What is said between the user, the model and the tools. Knows nothing of files, servers or screens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "interrupted", "error"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asks for. `arguments` is the JSON text exactly as the model wrote it (it may be broken):
    sending back the same bytes keeps the server's prompt cache. `recovered`: it stood in the answer as text."""

    id: str
    name: str
    arguments: str
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one reply as the server's `usage` gives them; None where the server said nothing."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None


Kind: TypeAlias = Literal["thinking", "prose", "code", "calls"]
KINDS: tuple[Kind, ...] = ("thinking", "prose", "code", "calls")


@dataclass(frozen=True, slots=True)
class Share:
    """What one kind of text had of a reply, in tokens. A draft belongs to the kind of its first token."""

    kind: Kind
    tokens: int
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's own `timings` of one reply (milliseconds and token counts). None: not reported.

    `draft_n` and `draft_n_accepted` are absent from the server's answer when nothing was drafted. `split`: the same by
    kind of text; empty where the server does not report while it writes.
    """

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None
    predicted_per_second: float | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None
    split: tuple[Share, ...] = ()

    @property
    def acceptance(self) -> float | None:
        """Accepted drafted tokens / drafted tokens, 0..1."""
        if not self.draft_n or self.draft_n_accepted is None:
            return None
        return self.draft_n_accepted / self.draft_n

    @property
    def tokens_per_step(self) -> float | None:
        """Mean tokens per target step: every target pass yields one token of its own besides the accepted drafts."""
        if self.predicted_n is None or self.draft_n_accepted is None:
            return None
        passes = self.predicted_n - self.draft_n_accepted
        return self.predicted_n / passes if passes > 0 else None

    @property
    def cache_share(self) -> float | None:
        """Part of the prompt that was reused from the KV cache, 0..1."""
        if self.cache_n is None or self.prompt_n is None or not self.cache_n + self.prompt_n:
            return None
        return self.cache_n / (self.cache_n + self.prompt_n)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """`shown`: what the user wrote, where `text` says more than that; empty: `text` is all of it. `points`: what is to
    be done for it, where a skill with a check list came along."""

    id: str
    text: str
    shown: str = ""
    points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One reply of the model. `finish` other than "stop" and "tool_calls" means that it was cut short; `cut` are calls
    that were still being written then: kept to be seen, never run and never sent back."""

    id: str
    text: str
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    usage: Usage = Usage()
    timings: Timings = Timings()
    cut: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one call, as the model reads it."""

    call_id: str
    name: str
    text: str
    failed: bool = False


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands at the beginning of every request of a session. `tools`: the canonical JSON text of the
    tool list, "" for none. `thinking`: it was on at the beginning."""

    system: str
    tools: str
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool returns: `text` for the model; `display` for the user (empty: show `text`). `allowed`: the tools that
    the rest of the turn keeps to, as in `core/narrowing`; empty: it says nothing of that."""

    text: str
    display: str = ""
    failed: bool = False
    allowed: tuple[str, ...] = ()
