"""Commands about the running conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.commands.base import Answer, Ask, Command, Said
from agent.core.permissions import MODES
from agent.core.session import Session
from agent.core.thinking import word
from agent.errors import ConfigError

MOST_THINKING = 1 << 20  # tokens; longer than any context


def mode_command(session: Callable[[], Session]) -> Command:
    async def run(argument: str) -> Answer:
        if not argument:
            return Said(f"Permission mode: {session().mode}.")
        if argument not in MODES:
            raise ConfigError(f"{argument!r} is no permission mode; there are {', '.join(MODES)}.")
        session().set_mode(argument)
        return None

    def complete(written: str) -> Sequence[str]:
        return [m for m in MODES if m.startswith(written)]

    return Command("mode", "what needs no question", run, usage="|".join(MODES), complete=complete)


def plan_command(session: Callable[[], Session]) -> Command:
    async def run(argument: str) -> Answer:
        session().set_mode("plan")
        return Ask(argument) if argument else Said("Plan mode: say what you want; nothing is changed before you agree.")

    return Command("plan", "look and plan first, change nothing until you agree", run, usage="[what]")


def thinking_command(session: Callable[[], Session]) -> Command:
    async def run(argument: str) -> Answer:
        now = session().thinking
        if not argument:
            state = "as the server was started" if now is None else word(now)
            return Said(f"Thinking: {state}.")
        if argument not in ("on", "off") and not (argument.isdecimal() and 0 < int(argument) <= MOST_THINKING):
            raise ConfigError(f"Write /thinking on, off, or the most tokens it may take (1 to {MOST_THINKING}).")
        wanted = int(argument) if argument.isdecimal() else argument == "on"
        if isinstance(wanted, bool) == isinstance(now, bool) and wanted == now:
            return Said(f"Thinking is {argument} already.")
        session().set_thinking(wanted)
        most = f"at most {wanted} tokens before each answer" if not isinstance(wanted, bool) else argument
        return Said(f"Thinking: {most}, from the next request on.")

    def complete(written: str) -> Sequence[str]:
        return [w for w in ("on", "off") if w.startswith(written)]

    return Command("thinking", "whether the model thinks first, and how long", run, usage="on|off|N", complete=complete)
