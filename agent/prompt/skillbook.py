"""The skills of one session: what the model is told of them, and what it gets when it asks for one. Reads the disk anew
whenever one is used, so that a skill can be written and tried in the same session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.config.trust import Trust
from agent.errors import ToolFailure
from agent.prompt.activation import Activation, activate
from agent.prompt.skills import Found, Root, catalogue, discover, matching, thing_of, tokens

SHARE = 0.02  # of the context, for the names and descriptions in the system prompt
ANSWER = 4  # times as much for a list the model asks for
INTRODUCTION = """# Skills

Tested steps for kinds of work. When a task fits one, call skill with its name first, then do its steps.
"""


class SkillBook:
    """`facts`: a line on the folder and the permission mode for whoever starts a skill. `context` in tokens."""

    def __init__(self, places: Sequence[Root], trust: Trust, facts: Callable[[], str], context: int) -> None:
        self._places = places
        self._trust = trust
        self._facts = facts
        self._limit = int(context * SHARE)
        self.found = Found()
        self.refresh()

    def refresh(self) -> Found:
        self.found = discover(self._places, self._trust)
        return self.found

    def trust_all(self) -> int:
        """The project's skills count from now on, as they are. Returns how many that are new."""
        untrusted = self.found.untrusted
        for skill in untrusted:
            self._trust.settle(thing_of(skill), allowed=True)
        self.refresh()
        return len(untrusted)

    def introduction(self) -> str:
        """The part of the system prompt; empty where there is nothing to offer."""
        text = catalogue(self.found.skills, self._limit - tokens(INTRODUCTION))
        return f"{INTRODUCTION}{text}" if text else ""

    def listing(self, words: str) -> str:
        """Names and descriptions for the model: all of them, or those that `words` fit."""
        found = self.refresh().skills
        chosen = matching(found, words) if words.strip() else list(found)
        text = catalogue(chosen, self._limit * ANSWER)
        if not text:
            return f"No skill fits “{words}”. Go on without one." if words.strip() else "There are no skills."
        return f"Skills (call skill with one of these names):\n{text}"

    def activate(self, name: str, arguments: str = "", *, by_user: bool = False) -> Activation:
        """Raises ToolFailure, with what there is instead."""
        skill = self.refresh().find(name)
        if skill is None:
            raise ToolFailure(self._missing(name))
        if not by_user and not skill.for_model:
            raise ToolFailure(f"The skill {skill.name} may be started by the user only, with /{skill.name}.")
        return activate(skill, arguments.strip(), self._facts())

    def _missing(self, name: str) -> str:
        held_back = next((s for s in self.found.untrusted if s.name == name.strip().lower()), None)
        if held_back is not None:
            return (
                f"The skill {held_back.name} of this project does not count: the user has not trusted it as it is now. "
                "Go on without it, and say so."
            )
        near = [s.name for s in matching([s for s in self.found.skills if s.for_model], name.replace("-", " "))][:5]
        hint = f" Near to it: {', '.join(near)}." if near else ""
        return f"There is no skill named {name!r}.{hint} An empty name lists all of them."
