"""The skill tool: hands the model the steps for a kind of work, once, and has their check list kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of


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


def no_list(_points: Sequence[str]) -> None:
    pass


class SkillTool:
    """`holds`: whether a text stands in what the model sees. `plan_points` gets the check list of each skill that is
    loaded."""

    name = "skill"
    params = SkillParams

    def __init__(
        self,
        skills: Skills,
        holds: Callable[[str], bool],
        plan_points: Callable[[Sequence[str]], None] = no_list,
    ) -> None:
        self.description = description_of("skill")
        self._skills = skills
        self._holds = holds
        self._plan_points = plan_points

    def plan(self, params: SkillParams) -> Plan:
        return Plan("read", params.name.strip() or "all skills")

    async def run(self, params: SkillParams, ctx: ToolContext) -> ToolOutput:
        name, _, arguments = params.name.strip().lstrip("/").partition(" ")
        if not name:
            return ToolOutput(self._skills.listing(""))
        skill = self._skills.activate(name, arguments)
        if self._holds(skill.marker):
            return ToolOutput(skill.again, f"{skill.name} is loaded already", allowed=skill.allowed)
        self._plan_points(skill.points)
        return ToolOutput(skill.text, display=_shown(skill), allowed=skill.allowed)


def _shown(skill: Activated) -> str:
    return "\n".join([f"Loaded {skill.name}", *(f"☐ {point}" for point in skill.points)])
