"""The dock that asks. It shows what one call will do and takes one decision."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text
from textual import events
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from agent.events import Decision, PermissionAsked
from agent.tui.cells.draw import safe
from agent.tui.theme import ADDED, DIM, REMOVED, TEXT, WARN

# Someone who is typing when the question appears has not read it yet.
DEAF = 0.3  # seconds
KEYS: dict[str, Decision] = {"y": "once", "enter": "once", "s": "session", "n": "denied"}


class Approval(VerticalScroll, can_focus=True):
    """Hidden while nothing is asked."""

    @dataclass
    class Decided(Message):
        request_id: str
        decision: Decision

    def __init__(self) -> None:
        super().__init__(id="approval")
        self._body = Static("", id="approval-body")
        self._asked: list[PermissionAsked] = []
        self._since = 0.0
        self.display = False

    def compose(self):  # noqa: ANN201
        yield self._body

    @property
    def asking(self) -> bool:
        return bool(self._asked)

    def ask(self, event: PermissionAsked) -> None:
        if all(a.request_id != event.request_id for a in self._asked):
            self._asked.append(event)
            self._show()

    def settle(self, call_id: str) -> None:
        self._asked = [a for a in self._asked if a.plan.call_id != call_id]
        self._show()

    def clear(self) -> None:
        self._asked.clear()
        self._show()

    def _show(self) -> None:
        self.display = bool(self._asked)
        if self._asked:
            self._since = time.monotonic()
            self._body.update(_question(self._asked[0]))
            self.scroll_home(animate=False)
            self.focus()

    def on_key(self, event: events.Key) -> None:
        decision = KEYS.get(event.key)
        if decision is None or not self._asked:
            return
        event.stop()
        if time.monotonic() - self._since >= DEAF:
            self.post_message(self.Decided(self._asked[0].request_id, decision))


def _question(event: PermissionAsked) -> RenderableType:
    plan = event.plan
    verb = {"edit": "Change", "execute": "Run", "read": "Read"}.get(plan.kind, "Use")
    head = Text(f"{verb} ", f"bold {WARN}") + Text(
        safe(plan.tool if plan.kind == "execute" else plan.title), f"bold {TEXT}"
    )
    parts: list[RenderableType] = [head]
    if plan.command:
        parts.append(Text(safe(plan.command), TEXT))
    for line in plan.preview.split("\n") if plan.preview else ():
        if not line.startswith(("---", "+++")):
            style = ADDED if line.startswith("+") else REMOVED if line.startswith("-") else DIM
            parts.append(Text(safe(line), style))
    parts.append(Text("y once · s this session · n no · Esc stop", DIM))
    return Group(*parts)
