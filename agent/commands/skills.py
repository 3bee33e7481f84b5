"""Commands that are skills, the user's own commands, and those about them. What they say to the model comes from
outside; here is only how they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.commands.base import Answer, Ask, Command, Said
from agent.commands.table import listed


def asking_command(name: str, summary: str, usage: str, ask: Callable[[str], Ask]) -> Command:
    """`ask` makes the message from the arguments, and raises AgentError for what cannot be done."""

    async def run(argument: str) -> Answer:
        return ask(argument)

    return Command(name, summary, run, usage=usage, headless=True)


def skills_command(listing: Callable[[], str], trust: Callable[[], str]) -> Command:
    """`listing` looks anew; `trust` lets the project's skills and commands count, and says what happened."""

    async def run(argument: str) -> Answer:
        if argument == "trust":
            return Said(trust())
        if argument:
            return Said("/skills lists them; /skills trust lets those of this folder count.", "warning")
        return listed(listing())

    def complete(written: str) -> Sequence[str]:
        return [w for w in ("trust",) if w.startswith(written)]

    return Command("skills", "what the agent has steps for", run, usage="[trust]", headless=True, complete=complete)
