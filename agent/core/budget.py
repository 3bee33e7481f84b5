"""How the context is spent: what the server has counted, what came since, and the room that a reply needs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage

REPLY = 4096  # tokens kept free for a reply: about 400 lines of code, the longest file a careful model writes at once
ROUGH = 1.5  # an estimate may be wrong by so much; closer to the limit the server is asked
FRAME = 8  # tokens that a template puts around a message

Weigh = Callable[[str], int]


def reserved(n_ctx: int, reply_limit: int | None) -> int:
    """Tokens kept free for the next reply. Never more than a quarter: a small context would be compacted for ever."""
    return min(reply_limit or REPLY, n_ctx // 4)


def text_of(message: Message) -> str:
    """What of a message goes into the prompt."""
    match message:
        case AssistantMessage(calls=calls) if calls:
            return "\n".join([message.text, *(f"{c.name} {c.arguments}" for c in calls)])
        case UserMessage() | AssistantMessage() | ToolMessage():
            return message.text


def weight(messages: Sequence[Message], weigh: Weigh) -> int:
    """Tokens of these messages, estimated."""
    return sum(weigh(text_of(m)) + FRAME for m in messages)


def tokens_after(message: AssistantMessage) -> int | None:
    """Prompt and reply in tokens, as the server counted them."""
    usage, timings = message.usage, message.timings
    if usage.prompt_tokens is not None:
        return usage.prompt_tokens + (usage.generated_tokens or 0)
    if timings.prompt_n is not None:
        return (timings.cache_n or 0) + timings.prompt_n + (timings.predicted_n or 0)
    return None


@dataclass(frozen=True, slots=True)
class Counted:
    """`tokens`: prompt and reply of the last request that the server has counted in this epoch, None where there is
    none; `since`: the messages that came after it."""

    tokens: int | None
    since: tuple[Message, ...]


def counted(messages: Sequence[Message]) -> Counted:
    """Messages kept by a compaction carry no figures, since those were of another prompt."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AssistantMessage) and (tokens := tokens_after(message)) is not None:
            return Counted(tokens, tuple(messages[at + 1 :]))
    return Counted(None, tuple(messages))


@dataclass(frozen=True, slots=True)
class Allowance:
    """Tokens that a compacted conversation may take, by what they are for. `room`: all there is for messages."""

    room: int
    said: int
    summary: int
    facts: int
    tail: int

    @classmethod
    def of(cls, room: int, scale: float = 1.0) -> Allowance:
        """Together at most 70 % of the room, so that work can go on for a while."""
        part = room * scale
        return cls(room, int(part * 0.2), max(96, min(1500, int(part * 0.12))), int(part * 0.13), int(part * 0.25))


def cut(text: str, tokens: int, weigh: Weigh, *, end_only: bool = False) -> str:
    """`text` in at most about so many tokens, its middle left out; `end_only`: its beginning, as the end of an output
    says why it failed."""
    size = weigh(text)
    if size <= tokens:
        return text
    most = max(40, int(len(text) * tokens / size * 0.95) - 50)
    if most >= len(text):
        return text
    note = f"[… {len(text) - most} characters left out …]"
    if end_only:
        return f"{note}\n{text[-most:]}"
    return f"{text[: most - most // 3]}\n{note}\n{text[-(most // 3) :]}"
