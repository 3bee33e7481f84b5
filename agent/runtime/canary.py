"""A short fixed request that shows whether an engine can be trusted: sane words, drafting both cold and over a cached
prefix, drafts that are accepted, the context that was asked for. Engines have been seen that answer only `/////`, that
serve without drafting and say nothing, and that stop drafting behind a cached prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import httpx2

from agent.config.foreign import first, mapping

PROMPT = "Write a Python function fibonacci(n) that returns a list of the first n Fibonacci numbers. Code only."
TOKENS = 64  # of each of the two replies where drafting is to be seen
FEW_TOKENS = 16  # where only the words are looked at
SILENCE = 120.0  # seconds; a 31B on a GPU takes one
NEAR_ZERO = 0.02  # acceptance; a drafter made for another target gets 0, the worst of the right ones about 0.1
ENOUGH_DRAFTED = 30  # tokens; of fewer, a share says nothing


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one reply. drafted, accepted: tokens; None where the server says nothing. tok_s: of the decode phase."""

    text: str
    cached: int | None
    drafted: int | None
    accepted: int | None
    tok_s: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """fault: "" when all is well, else what is wrong, as the middle of a sentence. garbage: the words themselves are
    wrong, so that not even the plain model can be trusted as it runs now."""

    fault: str
    garbage: bool
    cold: Figures
    warm: Figures | None

    @property
    def tok_s(self) -> float | None:
        return self.cold.tok_s

    @property
    def acceptance(self) -> float | None:
        pairs = [(f.drafted, f.accepted) for f in (self.cold, self.warm) if f and f.drafted]
        drafted, accepted = sum(d or 0 for d, _ in pairs), sum(a or 0 for _, a in pairs)
        return accepted / drafted if drafted else None


async def sing(client: httpx2.AsyncClient, *, drafts: bool) -> Verdict:
    """With `drafts` it asks twice, the second time as the next turn of the same conversation, and a reply without a
    draft is a fault. Raises httpx2.HTTPError when the engine does not answer or refuses."""
    user = {"role": "user", "content": PROMPT}
    cold = await _ask(client, [user], TOKENS if drafts else FEW_TOKENS)
    warm = None
    if drafts and not insane(cold.text):
        warm = await _ask(client, [user, {"role": "assistant", "content": cold.text}, user], TOKENS)
    return judge(cold, warm)


def judge(cold: Figures, warm: Figures | None) -> Verdict:
    """`warm` None: drafting is not looked at."""
    if why := insane(cold.text) or (insane(warm.text) if warm else ""):
        return Verdict(why, True, cold, warm)
    return Verdict(_drafting_fault(cold, warm) if warm else "", False, cold, warm)


def insane(text: str) -> str:
    """Why these cannot be a model's words; "" when they may be."""
    words = text.strip()
    if not words:
        return "it answers with nothing"
    if found := re.search(r"([^\s\w])\1{31,}", words):
        return f"it answers with a row of {found[1]!r}"
    if len(set(words)) <= 3 and len(words) > 30:
        return f"it answers with nothing but {words[:8]!r}"
    if sum(c == "\ufffd" for c in words) * 4 > len(words):
        return "it answers with broken characters"
    return ""


def _drafting_fault(cold: Figures, warm: Figures) -> str:
    if not cold.drafted:
        return "it does not draft"
    if warm.cached and not warm.drafted:
        return "it does not draft over a cached prefix"
    drafted = cold.drafted + (warm.drafted or 0)
    accepted = (cold.accepted or 0) + (warm.accepted or 0)
    if drafted >= ENOUGH_DRAFTED and accepted < drafted * NEAR_ZERO:
        return f"of {drafted} drafted tokens {accepted} were accepted: the draft model belongs to another model"
    return ""


async def _ask(client: httpx2.AsyncClient, messages: list[dict[str, str]], tokens: int) -> Figures:
    body: dict[str, Any] = {"messages": messages, "temperature": 0, "max_tokens": tokens, "cache_prompt": True}
    answer = await client.post("/v1/chat/completions", json=body, timeout=SILENCE)
    answer.raise_for_status()
    try:
        data: Any = answer.json()
    except ValueError:
        data = {}
    return figures_of(data)


def figures_of(data: Any) -> Figures:
    """Of a chat completion as llama-server gives it (`timings` at the top level)."""
    reply = mapping(data)
    message = mapping(first(reply.get("choices")).get("message"))
    words = [message.get("reasoning_content"), message.get("content")]
    calls = message.get("tool_calls")
    text = "".join(w for w in words if isinstance(w, str)) + (str(calls) if calls else "")
    timings = mapping(reply.get("timings"))

    def number(name: str) -> int | None:
        value = timings.get(name)
        return value if isinstance(value, int) else None

    rate = timings.get("predicted_per_second")
    drafted = number("draft_n")
    if drafted is None and timings:
        drafted = 0  # the server leaves both out when it drafted nothing
    return Figures(
        text, number("cache_n"), drafted, number("draft_n_accepted"), rate if isinstance(rate, float | int) else None
    )
