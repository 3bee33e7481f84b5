"""Who may do what without being asked: a pure function of mode, plan and rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.core.rules import Rule, Rulebook, Verdict, offer
from agent.protocols import Access, Plan

Mode: TypeAlias = Literal["ask", "accept-edits", "plan", "auto"]
MODES: tuple[Mode, ...] = ("ask", "accept-edits", "plan", "auto")
OFFERED = 4  # rules in one offer; a command that needs more is not one to wave through


@dataclass(frozen=True, slots=True)
class Ruling:
    """`why`: the rule that decided, or what makes it a question, in words for the user. `offers`: rules that would let
    this pass from now on; empty where no rule can."""

    verdict: Verdict
    by: Literal["mode", "rule"]
    why: str = ""
    offers: tuple[str, ...] = ()

    @property
    def session_offers(self) -> tuple[str, ...]:
        """For one session edits are waved through together: a turn changes many files."""
        return tuple(dict.fromkeys("Edit" if o.startswith("Edit(") else o for o in self.offers))


def accesses_of(plan: Plan) -> tuple[Access, ...]:
    """What a plan says, or as much as its kind tells; else it is the use of its tool."""
    if plan.accesses:
        return plan.accesses
    if plan.kind in ("read", "search", "edit", "delete", "move") and plan.paths:
        act: Literal["read", "edit"] = "read" if plan.kind in ("read", "search") else "edit"
        return tuple(Access(act, path, outside=plan.outside) for path in plan.paths)
    if plan.kind == "execute" and plan.command is not None:
        return (Access("run", plan.command, outside=plan.outside),)
    return (Access("use", plan.command or plan.title, outside=plan.outside),)


def changes_of(plan: Plan) -> tuple[list[str], bool]:
    """Files that a call changes, and whether it may change others too."""
    parts = accesses_of(plan)
    files = [p.what for p in parts if p.act == "edit"]
    return files, any(p.act in ("run", "use") and not _looks(plan, p) for p in parts)


def decide(mode: Mode, tool: str, plan: Plan, rules: Rulebook) -> Ruling:
    """Deny, then ask, then allow; every part must pass. What leads out of the project, or to a protected place, is
    asked in every mode."""
    parts = accesses_of(plan)
    for part in parts:
        if rule := rules.first("deny", tool, part):
            return Ruling("deny", "rule", _named(rule))
    if mode == "plan" and not all(_looks(plan, part) for part in parts):
        return Ruling("deny", "mode")
    for part in parts:
        if rule := rules.first("ask", tool, part):
            return Ruling("ask", "rule", _named(rule))
    if plan.outside and plan.kind == "execute":  # out of the sandbox, say: no rule about a command speaks of that
        return Ruling("ask", "mode", plan.title)
    if plan.unclear and (mode != "auto" or rules.any_for("run", "deny", "ask")):
        return Ruling("ask", "mode", plan.unclear)
    open_parts: list[Access] = []
    ruled = ""
    for part in parts:
        if _free(mode, plan, part):
            continue
        rule = None if part.act == "edit" and part.outside else rules.first("allow", tool, part)
        if rule is None:
            open_parts.append(part)
        else:
            ruled = _named(rule)
    if not open_parts:
        return Ruling("allow", "rule" if ruled else "mode", ruled)
    outside = next((p for p in open_parts if p.outside), None)
    why = f"{'writes' if outside.act == 'edit' else 'looks'} outside of the project: {outside.what}" if outside else ""
    if any(p.act == "edit" and p.outside for p in open_parts):
        return Ruling("ask", "mode", why)
    offers = tuple(dict.fromkeys(offer(tool, p, rules.root) for p in open_parts))
    return Ruling("ask", "mode", why, offers if len(offers) <= OFFERED else ())


def _looks(plan: Plan, part: Access) -> bool:
    if part.act == "use":
        return plan.kind in ("read", "search", "think")
    return part.act == "read" or part.harmless or part.through


def _free(mode: Mode, plan: Plan, part: Access) -> bool:
    """Does it need no rule in this mode?"""
    if part.through:
        return True
    if mode == "auto" and part.act == "run":
        return True
    if part.outside:
        return False
    return mode == "auto" or _looks(plan, part) or (mode == "accept-edits" and part.act == "edit")


def _named(rule: Rule) -> str:
    return f"{rule.verdict} {rule.text} ({rule.source})"


def refusal(what: str, by: str, mode: Mode, why: str = "") -> str:
    """What the model reads when it may not. `what`: the plan's title, with the true target of a link. `by`: mode,
    rule, nobody, user, or the rules of a skill."""
    if by == "mode":
        return f"Not done: {what}. Permission mode {mode} allows reading only. Present your plan instead."
    if by == "rule":
        return f"Not done: {what}. It is denied by the rule {why.removeprefix('deny ')}. Do not try another way."
    if by == "nobody":
        return f"Not done: {what}. It needs the user's permission and nobody is there to give it; go on without it."
    if by == "user":
        return f"The user declined: {what}. Do not try it again in another way; ask what to do instead."
    return f"Not done: {what}. The skill in use keeps to {by} until the user's next message. Go on with those."
