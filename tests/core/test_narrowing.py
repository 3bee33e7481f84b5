from __future__ import annotations

import pytest

from agent.core.narrowing import kept_to, permits

TOOLS = ("bash", "edit", "read", "write", "mcp__git__log")


@pytest.mark.parametrize(
    ("names", "rules"),
    [
        (("Bash(git:*)", "Read"), ("bash(git:*)", "read")),
        (("MultiEdit",), ("edit",)),
        (("mcp__git__*",), ("mcp__git__*",)),
        (("WebSearch", "Task"), ()),
        ((), ()),
    ],
)
def test_names_of_other_clients_become_rules_about_our_tools(names: tuple[str, ...], rules: tuple[str, ...]) -> None:
    assert kept_to(names, TOOLS) == rules


@pytest.mark.parametrize(
    ("rules", "tool", "command", "permitted"),
    [
        ((), "bash", "rm -rf x", True),
        (("read",), "write", None, False),
        (("read",), "todo", None, True),
        (("write",), "read", None, True),
        (("bash",), "bash", "anything; at all", True),
        (("bash(*)",), "bash", "anything", True),
        (("bash(git:*)",), "bash", "git status", True),
        (("bash(git *)",), "bash", "git", True),
        (("bash(git:*)",), "bash", "gitk", False),
        (("bash(git:*)",), "bash", "git status; rm -rf x", False),
        (("bash(git:*)",), "bash", "git log > ~/.bashrc", False),
        (("bash(git:*)",), "bash", "git log $(rm x)", False),
        (("bash(npm run build)",), "bash", "npm run build", True),
        (("bash(npm run build)",), "bash", "npm run deploy", False),
        (("mcp__git__*",), "mcp__git__log", None, True),
        (("mcp__git__*",), "mcp__web__get", None, False),
    ],
)
def test_a_turn_keeps_to_its_rules(rules: tuple[str, ...], tool: str, command: str | None, permitted: bool) -> None:
    assert permits(rules, tool, command) == permitted
