"""Commands about the product itself."""

from __future__ import annotations

from agent.commands.base import Answer, Command, Registry
from agent.commands.table import listed

NAMES_MOST = 34  # columns; a longer name pushes its own words to the right


def help_command(registry: Registry, keys: str = "") -> Command:
    """`keys`: of the screen; where there is none, only the commands are listed that make sense without one."""

    async def run(_argument: str) -> Answer:
        shown = [c for c in registry if keys or c.headless]
        width = min(NAMES_MOST, max((len(c.title) for c in shown), default=0))
        lines = [f"{c.title:<{width}}  {c.summary}" for c in shown]
        return listed("\n".join([keys, *lines]).strip("\n"))

    return Command("help", "keys and commands" if keys else "the commands there are", run, headless=True)
