"""Who may do what without being asked: a pure function of mode, plan and what the user has granted this session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.protocols import Plan

Mode: TypeAlias = Literal["ask", "accept-edits", "plan", "auto"]
MODES: tuple[Mode, ...] = ("ask", "accept-edits", "plan", "auto")
Verdict: TypeAlias = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class Grant:
    """What "this session" gave: edits inside the project, or one exact command."""

    kind: str
    command: str | None = None


def grant_of(plan: Plan) -> Grant:
    return Grant(plan.kind, plan.command)


def decide(mode: Mode, plan: Plan, grants: frozenset[Grant]) -> Verdict:
    """Reading inside the project is always free. What leads out of it, or to a protected place, is always asked."""
    reads = plan.kind in ("read", "search", "think")
    if reads and not plan.outside:
        return "allow"
    if mode == "plan" and not reads:
        return "deny"
    if plan.outside:
        return "ask"
    if mode == "auto" or grant_of(plan) in grants:
        return "allow"
    if mode == "accept-edits" and plan.kind == "edit":
        return "allow"
    return "ask"


def refusal(what: str, by: str, mode: Mode) -> str:
    """What the model reads when it may not. `what`: the plan's title, with the true target of a link. `by`: mode,
    nobody, user, or the rules of a skill."""
    if by == "mode":
        return f"Not done: {what}. Permission mode {mode} allows reading only. Present your plan instead."
    if by == "nobody":
        return f"Not done: {what}. It needs the user's permission and nobody is there to give it; go on without it."
    if by == "user":
        return f"The user declined: {what}. Do not try it again in another way; ask what to do instead."
    return f"Not done: {what}. The skill in use keeps to {by} until the user's next message. Go on with those."
