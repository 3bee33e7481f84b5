"""`/cache`: what of each prompt came from the server's cache, and whose bytes changed where it was read again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from agent.commands.base import Answer, Command, Said
from agent.core.cache import counts
from agent.core.session import Session
from agent.errors import ConfigError
from agent.events import REWRITES, AssistantAdded, DurableEvent, Endpoint

SHOWN = 20  # newest breaks; a long session with a bad template has one in each turn


def cache_command(session: Callable[[], Session], ready: Callable[[], Awaitable[Endpoint]]) -> Command:
    """`ready`: who answers."""

    async def run(argument: str) -> Answer:
        if argument not in ("", "read"):
            raise ConfigError(f"/cache shows; /cache read has the prefix read now. {argument!r} is neither.")
        if argument:
            return Said(await _read(session()))
        current = session()
        lines = [_sums(current.past), _template(await ready()), *_breaks(current.past)]
        if current.read:
            lines.append(f"Read ahead while you typed: {current.read:,} tokens.")
        return Said("\n".join(line for line in lines if line))

    def complete(written: str) -> list[str]:
        return ["read"] if "read".startswith(written) else []

    return Command("cache", "what was read again, and whose bytes changed", run, "[read]", (), True, complete)


async def _read(session: Session) -> str:
    if session.running:
        return "A turn is running; it reads what it needs."
    read = await session.read_now()
    if read is None:
        return "Nothing was read: the server holds it already, works for somebody else, or is no llama-server."
    return f"{read:,} tokens were read; the next message finds them in the cache."


def _sums(past: Iterable[DurableEvent]) -> str:
    counted = [counts(e.message) for e in past if isinstance(e, AssistantAdded)]
    known = [(cached, prompt) for cached, prompt in counted if cached is not None and prompt]
    if not known:
        return "No request yet whose cache the server has told of."
    cached, prompt = sum(c for c, _ in known), sum(p for _, p in known)
    requests = f"{len(known)} request" + "s" * (len(known) != 1)
    return f"{cached / prompt:.0%} of the prompts came from the cache ({cached:,} of {prompt:,} tokens, {requests})."


def _template(endpoint: Endpoint) -> str:
    if endpoint.rewrites is None:
        return "Whether the server's chat template keeps earlier bytes is not known: it cannot be asked."
    if not endpoint.rewrites:
        return "The server's chat template keeps every earlier byte."
    ways = "; it ".join(REWRITES[key] for key in endpoint.rewrites)
    return f"The server's chat template does not keep every byte: it {ways}."


def _breaks(past: Iterable[DurableEvent]) -> list[str]:
    found: list[str] = []
    turn = step = 0
    for event in past:
        if isinstance(event, AssistantAdded):
            step = step + 1 if event.turn == turn else 1
            turn = event.turn
            if r := event.reread:
                found.append(f"  turn {turn}, step {step}: {r.tokens:,} tokens again · {r.what}")
    if not found:
        return ["Nothing was read twice."] if turn else []
    left = [f"  … and {len(found) - SHOWN} before"] if len(found) > SHOWN else []
    return ["Read again:", *left, *found[-SHOWN:]]
