"""Skills and custom commands of one run: where they lie, what is said of them, and the slash commands they become."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

from agent.commands.base import Ask, Command, Registry
from agent.commands.skills import asking_command, skills_command
from agent.config.paths import Paths
from agent.config.trust import Trust
from agent.errors import AgentError
from agent.prompt.activation import expand
from agent.prompt.custom import Custom, command_roots, find_commands, thing_of_file
from agent.prompt.overview import overview
from agent.prompt.repository import init_order
from agent.prompt.skillbook import SkillBook
from agent.prompt.skills import Root, Skill, load_page, roots

PROGRAMS = ("python3", "uv", "node", "npm", "git", "cargo", "go")


def bundled_skills() -> Path:
    """In an installed product below the package, in a checkout beside it."""
    package = Path(str(resources.files("agent")))
    installed = package / "skills"
    return installed if installed.is_dir() else package.parent / "skills"


def home_of(env: Mapping[str, str]) -> Path | None:
    home = env.get("HOME", "")
    return Path(home) if os.path.isabs(home) else None


def skill_places(folder: Path, paths: Paths, env: Mapping[str, str]) -> tuple[Root, ...]:
    return roots(folder, paths.config, home_of(env), bundled_skills())


def facts(folder: Path, mode: str) -> str:
    """What a skill that builds something wants to know, and a model would spend a call on."""
    try:
        names = sorted(n for n in os.listdir(folder) if n not in (".git", ".dflash"))
    except OSError:
        names = []
    holds = f"holds {len(names)} entries" if names else "is empty"
    git = "a git repository" if any((p / ".git").exists() for p in (folder, *folder.parents)) else "no git repository"
    there = ", ".join(p for p in PROGRAMS if shutil.which(p))
    return (
        f"Facts: the folder {holds}; {git}; permission mode {mode}; programs here: {there or 'none of the usual ones'}."
    )


class Extensions:
    """What a session gets from skills and commands on disk. `mode`: the permission mode at this moment. `holds`:
    whether a text stands in what the model sees. `registry` gets their slash commands, and `changed` hears that there
    may be others now. `lent`: folders of skills, which may be read; it grows."""

    def __init__(
        self,
        folder: Path,
        paths: Paths,
        env: Mapping[str, str],
        trust: Trust,
        *,
        context: int,
        mode: Callable[[], str],
        holds: Callable[[str], bool],
        registry: Registry,
        changed: Callable[[], None],
    ) -> None:
        self.book = SkillBook(skill_places(folder, paths, env), trust, lambda: facts(folder, mode()), context)
        self._folder = folder
        self._trust = trust
        self._holds = holds
        self._registry = registry
        self._changed = changed
        self._places = command_roots(folder, paths.config, home_of(env))
        self.customs = find_commands(self._places, trust)
        self.lent: list[Path] = []
        registry.add(*self._own_commands())
        self._offer()

    def look_anew(self) -> None:
        self.book.refresh()
        self.customs = find_commands(self._places, self._trust)
        self._offer()
        self._changed()

    def _offer(self) -> None:
        self._registry.add(*self._commands())
        real = (Path(os.path.realpath(s.folder)) for s in self.book.found.skills)
        self.lent += [folder for folder in real if folder not in self.lent]

    def _commands(self) -> list[Command]:
        """Custom commands before skills of the same name: the user wrote both, and a command is nearer to the hand."""
        custom = [asking_command(c.name, c.summary, c.hint, self._expander(c)) for c in self.customs.commands]
        skills = [
            asking_command(s.name, s.description.split(". ")[0], s.hint or "[task]", self._starter(s))
            for s in self.book.found.skills
            if s.for_user
        ]
        return [*custom, *skills]

    def start_notes(self) -> list[str]:
        """What is odd, when a session begins; nothing in an ordinary folder."""
        notes = [*self.book.found.notes, *self.customs.notes]
        more = f" (and {len(notes) - 1} more: /skills)" if len(notes) > 1 else ""
        return [f"{notes[0]}{more}"] if notes else []

    def _own_commands(self) -> tuple[Command, ...]:
        """`/skills`, which makes what it finds new a command, and `/init`."""

        def listing() -> str:
            self.look_anew()
            return overview(self.book.found, self.customs)

        def trust() -> str:
            count = self.book.trust_all() + len(self.customs.untrusted)
            for command in self.customs.untrusted:
                self._trust.settle(thing_of_file(command.file), allowed=True)
            self.look_anew()
            return f"{count} of this folder count from now on, as they are." if count else "There is nothing to trust."

        def init(words: str) -> Ask:
            order = init_order(self._folder)
            return Ask(f"{order}\n\nThe user's words: {words}" if words else order, f"/init {words}".strip())

        about = "write AGENTS.md from what this project shows"
        return skills_command(listing, trust), asking_command("init", about, "[words]", init)

    def _starter(self, skill: Skill) -> Callable[[str], Ask]:
        def ask(arguments: str) -> Ask:
            line = f"/{skill.name} {arguments}".strip()
            started = self.book.activate(skill.name, arguments, by_user=True)
            known = self._holds(started.marker)
            text, points = (started.again, ()) if known else (started.text, started.points)
            return Ask(f"{text}\n\nThe user's message: {line}", line, started.allowed, points)

        return ask

    def _expander(self, custom: Custom) -> Callable[[str], Ask]:
        def ask(arguments: str) -> Ask:
            there = find_commands(self._places, self._trust).commands
            now = next((c for c in there if c.name == custom.name), None)
            if now is None:
                raise AgentError(f"The command /{custom.name} is gone, or has changed since it was trusted: /skills.")
            line = f"/{now.name} {arguments}".strip()
            return Ask(expand(load_page(now.file), arguments), line, now.allowed)

        return ask
