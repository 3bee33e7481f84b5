"""`/config`: what is settled, and by which file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.commands.base import Answer, Command
from agent.commands.table import listed


def config_command(explain: Callable[[str], Sequence[str]], keys: Sequence[str]) -> Command:
    """`explain` takes a key, or "" for all of them; it raises ConfigError."""

    async def run(argument: str) -> Answer:
        return listed("\n".join(explain(argument)))

    def complete(written: str) -> Sequence[str]:
        return [key for key in keys if key.startswith(written)]

    return Command("config", "settings, and which file made them", run, "[KEY]", complete=complete, headless=True)
