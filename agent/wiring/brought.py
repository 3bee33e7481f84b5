"""What came with a folder and may run only once the user says so: found, shown in one question, and let in. Asked once
for each content; what has changed, or is new, is asked about again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agent.commands.base import Level
from agent.config.trust import Thing, Trust
from agent.core.session import Session
from agent.events import TurnEnded
from agent.forms import Form
from agent.prompt.activation import skill_files
from agent.prompt.custom import thing_of_file
from agent.prompt.skills import thing_of
from agent.tools.mcp.pool import Pool
from agent.wiring.skills import Extensions
from agent.wiring.wall import OF_PROJECT, settings_thing

Kind: TypeAlias = Literal["MCP server", "skill", "command", "settings"]
HEADINGS: dict[Kind, str] = {
    "MCP server": "MCP servers, programs that are started",
    "skill": "Skills, instructions that may have files of theirs run",
    "command": "Commands, prompts that you start by name",
    "settings": "Settings, which can only be stricter than yours",
}
SHOWN = 8  # of one kind; a repository with more is looked at with /skills and /mcp
FILES = 3  # of one skill
CHOICES = (("trust", "trust it, and remember"), ("once", "only for this run"), ("no", "not now"))
LATER = (
    "/skills trust lets skills and commands count, /mcp approve NAME starts a server, --trust takes all for one run."
)


@dataclass(frozen=True, slots=True)
class Brought:
    """`does`: what it could run, in a few words."""

    kind: Kind
    name: str
    does: str
    thing: Thing


def brought(folder: Path, extensions: Extensions, pool: Pool, trust: Trust) -> list[Brought]:
    """All that does not count, whether the user was asked about it or not."""
    servers = [Brought("MCP server", e.name, e.target, e.thing) for e in pool.unapproved()]
    skills = [Brought("skill", s.name, _files(s.folder), thing_of(s)) for s in extensions.book.found.untrusted]
    commands = [Brought("command", f"/{c.name}", "", thing_of_file(c.file)) for c in extensions.customs.untrusted]
    settings = settings_thing(folder)
    own = [Brought("settings", str(OF_PROJECT), "", settings)] if settings and not trust.allows(settings) else []
    return [*servers, *skills, *commands, *own]


def left_out(things: Sequence[Brought]) -> str:
    """What to say where nobody can be asked; empty when there is nothing."""
    if not things:
        return ""
    return f"Left out, since this folder is not trusted: {_counted(things)}. --trust includes them for this run."


async def watch(
    session: Session,
    things: Sequence[Brought],
    look: Callable[[], Awaitable[Sequence[Brought]]],
    trust: Trust,
    let_in: Callable[[], None],
    tell: Callable[[Level, str], None],
) -> None:
    """Asks about `things`, and after each turn about what `look` finds then: a turn may have written a skill or a
    server."""
    resumed = session.turn
    await ask(session, things, trust, let_in, tell)
    async for event in session.subscribe():
        if isinstance(event, TurnEnded) and event.turn > resumed:
            await ask(session, await look(), trust, let_in, tell)


async def ask(
    session: Session,
    things: Sequence[Brought],
    trust: Trust,
    let_in: Callable[[], None],
    tell: Callable[[Level, str], None],
) -> None:
    """One question about all of `things` that the user was not asked about as they are now. `let_in` makes count what
    is trusted."""
    verdicts = {b.thing.key: trust.verdict(b.thing) for b in things}
    new = [b for b in things if verdicts[b.thing.key] != "refused"]
    if not new:
        return
    changed = {b.thing.key for b in new if verdicts[b.thing.key] == "changed"}
    question = Form("Trust this folder?", _text(new, changed), CHOICES, default=2)  # a stray Enter must start nothing
    choice = (await session.forms.ask(question)).choice
    kept = [trust.settle(b.thing, allowed=choice != "no", remember=choice != "once") for b in new]
    if choice == "no":
        tell("info", f"Left out: {_counted(new)}. {LATER}")
        return
    let_in()
    how_long = "from now on, as they are now" if all(kept) else "for this run"
    later = " The settings hold from the next conversation on (/new)." if any(b.kind == "settings" for b in new) else ""
    tell("info", f"These count {how_long}: {_counted(new)}.{later}")


def _text(things: Sequence[Brought], changed: set[str]) -> str:
    lines = ["This folder brings things that can tell the agent what to do, or run programs as you:"]
    for kind, heading in HEADINGS.items():
        lines += [f"{heading}: {names}"] if (names := _named([b for b in things if b.kind == kind], changed)) else []
    return "\n".join([*lines, "Without your trust they are left out, and all else works."])


def _named(things: Sequence[Brought], changed: set[str]) -> str:
    shown: list[str] = []
    for b in things[:SHOWN]:
        about = "; ".join(filter(None, ("changed" if b.thing.key in changed else "", b.does)))
        shown.append(f"{b.name} ({about})" if about else b.name)
    more = f" and {len(things) - SHOWN} more" if len(things) > SHOWN else ""
    return ", ".join(shown) + more


def _files(folder: Path) -> str:
    files = skill_files(folder)
    return ", ".join(files[:FILES]) + (f" and {len(files) - FILES} more" if len(files) > FILES else "")


def _counted(things: Sequence[Brought]) -> str:
    """`MCP servers notes, web; skill tide`, with at most so many names of a kind."""
    parts: list[str] = []
    for kind in HEADINGS:
        names = [b.name for b in things if b.kind == kind]
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            plural = "s" if len(names) > 1 and kind != "settings" else ""
            parts.append(f"{kind}{plural} {', '.join(names[:SHOWN])}{more}")
    return "; ".join(parts)
