"""Commands about the product itself."""

from __future__ import annotations

from agent.commands.base import Answer, Command, Registry, Said


def help_command(registry: Registry, keys: str) -> Command:
    async def run(_argument: str) -> Answer:
        width = max((len(c.title) for c in registry), default=0)
        lines = [f"{c.title:<{width}}  {c.summary}" for c in registry]
        return Said("\n".join([keys, *lines]))

    return Command("help", "keys and commands", run)
