"""Commands about the product itself."""

from __future__ import annotations

from agent.commands.base import Answer, Command, Registry
from agent.commands.table import listed

NAMES_MOST = 34  # columns; a longer name pushes its own words to the right


def help_command(registry: Registry, keys: str) -> Command:
    async def run(_argument: str) -> Answer:
        width = min(NAMES_MOST, max((len(c.title) for c in registry), default=0))
        lines = [f"{c.title:<{width}}  {c.summary}" for c in registry]
        return listed("\n".join([keys, *lines]))

    return Command("help", "keys and commands", run)
