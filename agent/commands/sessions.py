"""Commands that leave the conversation for another one, or take it out of the program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.commands.base import Answer, Command, Open, Said
from agent.commands.export import markdown
from agent.core.session import Session
from agent.errors import ConfigError
from agent.protocols import Archive

SHOWN = 40  # sessions in a menu


def session_commands(session: Callable[[], Session], archive: Archive, folder: Path) -> tuple[Command, ...]:
    async def new(_argument: str) -> Answer:
        return Open(None)

    async def resume(argument: str) -> Answer:
        wanted = argument.split()[0] if argument else ""
        if not wanted:
            others = [i for i in archive.list(folder) if i.id != session().id]
            if not others:
                return Said("There is no other session of this folder.")
            wanted = others[0].id
        if wanted == session().id:
            return Said("This is that session.")
        archive.load(wanted)
        return Open(wanted)

    async def fork(_argument: str) -> Answer:
        if not session().past:
            return Said("Nothing has been said yet: there is nothing to fork.")
        return Open(archive.fork(session().id))

    async def export(argument: str) -> Answer:
        if not session().past:
            return Said("Nothing has been said yet: there is nothing to export.")
        file = folder / (argument or f"dflash-{session().id}.md")
        try:
            with file.open("x", encoding="utf-8", errors="replace") as out:
                out.write(markdown(session().past))
        except FileExistsError as error:
            raise ConfigError(f"{file} is there already; name another file: /export FILE.") from error
        except OSError as error:
            raise ConfigError(f"Cannot write {file}: {error.strerror}.") from error
        return Said(f"The conversation was written to {file}.")

    def offered(written: str) -> Sequence[tuple[str, str]]:
        now = time.time()
        found = [i for i in archive.list(folder) if i.id != session().id]
        hits = [i for i in found if written.lower() in f"{i.id} {i.title}".lower()]
        return [(i.id, f"{ago(now - i.when)}  {i.title}") for i in hits[:SHOWN]]

    return (
        Command("new", "a new conversation; this one stays in /resume", new, aliases=("clear",)),
        Command("resume", "go on with another session of this folder", resume, "[ID]", ("continue",), complete=offered),
        Command("fork", "go on in a copy; this session stays as it is", fork),
        Command("export", "write the conversation to a Markdown file", export, "[FILE]", headless=True),
    )


def ago(seconds: float) -> str:
    """Rounded down to the largest unit: `3 h`, `2 d`."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"
