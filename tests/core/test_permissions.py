"""Who may do what without being asked."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.permissions import Grant, Mode, Verdict, decide
from agent.protocols import Plan


@pytest.mark.parametrize(
    ("mode", "kind", "outside", "verdict"),
    [
        ("ask", "read", False, "allow"),
        ("ask", "read", True, "ask"),
        ("ask", "edit", False, "ask"),
        ("ask", "execute", False, "ask"),
        ("accept-edits", "edit", False, "allow"),
        ("accept-edits", "edit", True, "ask"),
        ("accept-edits", "execute", False, "ask"),
        ("plan", "read", False, "allow"),
        ("plan", "edit", False, "deny"),
        ("plan", "execute", False, "deny"),
        ("auto", "execute", False, "allow"),
        ("auto", "edit", False, "allow"),
        ("auto", "edit", True, "ask"),
    ],
)
def test_the_table_of_modes(mode: Mode, kind: Any, outside: bool, verdict: Verdict) -> None:
    assert decide(mode, Plan(kind, "x", outside=outside), frozenset()) == verdict


def test_a_grant_covers_the_exact_command_only() -> None:
    grants = frozenset({Grant("execute", "ls")})
    assert decide("ask", Plan("execute", "ls", command="ls"), grants) == "allow"
    assert decide("ask", Plan("execute", "ls -a", command="ls -a"), grants) == "ask"
