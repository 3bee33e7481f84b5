"""Which tools a turn keeps to once a skill or command has named them. It can take away, never give: permission is
asked for all the same. Names follow the field's: `Read`, `Bash(git:*)`, `mcp__server__tool`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Sequence

ALWAYS = ("skill", "todo", "ask", "read", "list", "glob", "grep")  # they change nothing
_OTHER_NAMES = {
    "multiedit": "edit",
    "notebookedit": "edit",
    "ls": "list",
    "todowrite": "todo",
    "askuserquestion": "ask",
}
_COMPOUND = re.compile(r"[;&|<>`\n]|\$\(")  # more than one command, or a file written without a tool for it


def kept_to(names: Sequence[str], tools: Collection[str]) -> tuple[str, ...]:
    """`names` as rules about `tools`; empty where none of them is one of ours, so that they say nothing here."""
    rules: list[str] = []
    for name in names:
        tool, bracket, rest = name.partition("(")
        tool = tool if tool.startswith("mcp__") else _OTHER_NAMES.get(tool.lower(), tool.lower())
        if any(fnmatch.fnmatchcase(t, tool) for t in tools):
            rules.append(f"{tool}{bracket}{rest}")
    return tuple(rules)


def permits(rules: Sequence[str], tool: str, command: str | None) -> bool:
    """Without rules everything is permitted."""
    return not rules or tool in ALWAYS or any(_fits(rule, tool, command) for rule in rules)


def _fits(rule: str, tool: str, command: str | None) -> bool:
    name, _, rest = rule.partition("(")
    pattern = rest.removesuffix(")").strip()
    if not fnmatch.fnmatchcase(tool, name):
        return False
    if command is None or pattern in ("", "*"):
        return True
    command = command.strip()
    if _COMPOUND.search(command):
        return False
    if pattern.endswith((":*", " *")):
        start = pattern[:-2]
        return command == start or command.startswith(f"{start} ")
    return fnmatch.fnmatchcase(command, pattern)
