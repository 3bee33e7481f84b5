"""Where the context goes, by kind of text. Sums come from the server where it can say; within them the parts are shared
out by estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.core.budget import counted, reserved, weight
from agent.core.shortening import is_head
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.protocols import ModelRequest, TokenCounter


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens. `used`: what the next request holds so far; `exact`: the server has counted that. `parts`: by name, in
    the order of the prompt. `n_ctx` None: the server does not say; `reply`: kept free for the next one."""

    n_ctx: int | None
    used: int
    exact: bool
    parts: tuple[tuple[str, int], ...]
    reply: int

    @property
    def free(self) -> int | None:
        return None if self.n_ctx is None else max(0, self.n_ctx - self.used - self.reply)


async def spending(request: ModelRequest, counter: TokenCounter, *, ask: bool) -> Spending:
    """`ask`: the server is there, or may be waited for. Raises AgentError where it is not to be had."""
    await counter.prepare()
    n_ctx = await counter.n_ctx() if ask else None
    system = await counter.exact(replace(request, messages=(), tools="")) if ask else None
    fixed = await counter.exact(replace(request, messages=())) if ask else None
    whole = await counter.exact(request) if ask and request.messages else fixed
    if system is None or fixed is None:
        system = counter.estimate(request.system)
        fixed = system + counter.estimate(request.tools)
    known = counted(request.messages)
    exact = whole is not None or (known.tokens is not None and not known.since)
    if whole is None:
        since = weight(known.since, counter.estimate)
        whole = since + (fixed if known.tokens is None else known.tokens)
    messages = _by_kind(request.messages, counter)
    estimated = sum(messages.values())
    if fixed > whole:  # the model's template leaves out the tools, and nobody was there to tell
        system, fixed = (round(n * whole / (fixed + estimated)) for n in (system, fixed))
    scale = (whole - fixed) / max(1, estimated)
    parts = [("system prompt", system), ("tools", fixed - system)]
    parts += [(name, round(size * scale)) for name, size in messages.items()]
    return Spending(
        n_ctx, whole, exact, tuple(p for p in parts if p[1] > 0), reserved(n_ctx, request.max_tokens) if n_ctx else 0
    )


def _by_kind(messages: tuple[Message, ...], counter: TokenCounter) -> dict[str, int]:
    names = ("summary", "your messages", "answers", "tool calls", "tool results")
    found: dict[str, int] = {name: 0 for name in names}
    for message in messages:
        size = weight([message], counter.estimate)
        match message:
            case UserMessage():
                found["summary" if is_head(message) else "your messages"] += size
            case AssistantMessage(calls=calls):
                found["tool calls" if calls else "answers"] += size
            case ToolMessage():
                found["tool results"] += size
    return found
