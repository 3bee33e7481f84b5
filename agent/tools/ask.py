"""The ask tool: a question that waits for the user."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.base import Params, description_of, lines_of

OPTIONS = 9  # each has a digit
NOBODY = "Nobody is there to answer. Decide for yourself what is most sensible, and say what you assumed."


class AskParams(Params):
    options: str = ""
    question: str

    @field_validator("options", mode="before")
    @classmethod
    def _as_lines(cls, value: Any) -> Any:
        return lines_of(value)


class Ask:
    name = "ask"
    params = AskParams

    def __init__(self) -> None:
        self.description = description_of("ask")

    def plan(self, params: AskParams) -> Plan:
        if not params.question.strip():
            raise ToolFailure("The question is empty.")
        return Plan("think", params.question.strip())

    async def run(self, params: AskParams, ctx: ToolContext) -> ToolOutput:
        if ctx.ask is None:
            return ToolOutput(NOBODY, failed=True)
        options = tuple(dict.fromkeys(line.strip() for line in params.options.split("\n") if line.strip()))
        answer = await ctx.ask(params.question.strip(), options[:OPTIONS])
        return ToolOutput(f"The user answers: {answer}", answer)
