"""Commands about the running conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.commands.base import Answer, Ask, Command, Said
from agent.core.permissions import MODES
from agent.core.session import Session
from agent.errors import ConfigError


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
