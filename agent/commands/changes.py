"""What the agent did to files: seen, undone, done again."""

from __future__ import annotations

from collections.abc import Callable

from agent.commands.base import Answer, Command, Diff, Said
from agent.core.session import Session
from agent.events import FilesRestored


def change_commands(session: Callable[[], Session], unified: Callable[[str, bytes, bytes], str]) -> tuple[Command, ...]:
    """`unified`: the diff of a file by its name, old and new content."""

    async def undo(_argument: str) -> Answer:
        return _said(await session().changes.restore())

    async def redo(_argument: str) -> Answer:
        return _said(await session().changes.restore(redo=True))

    async def diff(argument: str) -> Answer:
        changed = await session().changes.changed(session().turn if argument == "last" else None)
        parts = [text for name, old, new in changed if (text := unified(name, old, new))]
        return Diff("\n".join(parts)) if parts else Said("The agent has changed no file that still differs.")

    return (
        Command("diff", "what the agent changed in this session, or in its last turn", diff, "[last]", headless=True),
        Command("undo", "put files back as they were before the last turn", undo, aliases=("rewind",), headless=True),
        Command("redo", "do again what was undone", redo, headless=True),
    )


def _said(done: FilesRestored) -> Said:
    return Said(done.words, shown=True)
