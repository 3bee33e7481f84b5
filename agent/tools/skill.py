"""The skill tool: hands the model the steps for a kind of work, once, and shows the user their check list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of

OPEN = "☐"  # before each point of a check list; the screen puts them on the list of steps


class Activated(Protocol):
    """`marker` stands in `text` and tells this version of the skill from all others; `again` is said where it is in the
    conversation already. `points`: its check list. `allowed`: tools to keep to; empty for all."""

    @property
    def name(self) -> str: ...
    @property
    def marker(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def again(self) -> str: ...
    @property
    def points(self) -> tuple[str, ...]: ...
    @property
    def allowed(self) -> tuple[str, ...]: ...


class Skills(Protocol):
    """`activate` raises ToolFailure for a name that is not there."""

    def activate(self, name: str, arguments: str = "") -> Activated: ...
    def listing(self, words: str) -> str: ...


class SkillParams(Params):
    name: str = ""


class SkillTool:
    """`holds`: whether a text stands in what the model sees."""

    name = "skill"
    params = SkillParams

    def __init__(self, skills: Skills, holds: Callable[[str], bool]) -> None:
        self.description = description_of("skill")
        self._skills = skills
        self._holds = holds

    def plan(self, params: SkillParams) -> Plan:
        return Plan("read", params.name.strip() or "all skills")

    async def run(self, params: SkillParams, ctx: ToolContext) -> ToolOutput:
        name, _, arguments = params.name.strip().lstrip("/").partition(" ")
        if not name:
            return ToolOutput(self._skills.listing(""))
        skill = self._skills.activate(name, arguments)
        if self._holds(skill.marker):
            return ToolOutput(skill.again, f"{skill.name} is loaded already", allowed=skill.allowed)
        shown = "\n".join([f"Loaded {skill.name}", *(f"{OPEN} {point}" for point in skill.points)])
        return ToolOutput(skill.text, shown, allowed=skill.allowed)
