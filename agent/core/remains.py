"""What of a conversation must survive word for word when it is compacted, folded from its durable events. Pure; knows
nothing of tokens or models. Folding all events, not only those of this epoch, keeps it whole over many compactions."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from agent.errors import ContextOverflow
from agent.events import (
    AssistantAdded,
    CallPlanned,
    Compacted,
    DurableEvent,
    ResultAdded,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from agent.messages import ToolCall, UserMessage

TODO, SKILL, ASK = "todo", "skill", "ask"  # tools of which more than a line is kept
DONE_MOST = 30  # calls that are remembered by a line


@dataclass(slots=True)
class Remains:
    """said: the user's messages and answers, oldest first. plan: the last answer given in plan mode. todos: the list as
    it stands. skills: texts by name. failure: the last command that failed and what it said, while it has not succeeded
    since. changed: files that were written, the last one last. done: a line for each of the last calls. summary: of the
    last compaction."""

    said: list[UserMessage] = field(default_factory=list[UserMessage])
    plan: str = ""
    todos: str = ""
    skills: dict[str, str] = field(default_factory=dict[str, str])
    failure: tuple[str, str] = ("", "")
    changed: dict[str, None] = field(default_factory=dict[str, None])
    done: deque[str] = field(default_factory=lambda: deque[str](maxlen=DONE_MOST))
    summary: str = ""
    _calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    _plans: dict[str, CallPlanned] = field(default_factory=dict[str, CallPlanned])
    _unanswered: bool = False
    _mode: str = ""

    def add(self, event: DurableEvent) -> None:
        match event:
            case TurnStarted(message=message):
                self._said(message)
                self._unanswered = True
            case TurnEnded(kind=ContextOverflow.kind) if self._unanswered and self.said:
                self.said.pop()  # as the history does: it could not be sent
            case AssistantAdded(message=message):
                self._unanswered = False
                self._calls = {c.id: c for c in message.calls}
                if self._mode == "plan" and message.text.strip() and not message.calls:
                    self.plan = message.text.strip()
            case CallPlanned(call_id=call_id):
                self._plans[call_id] = event
            case ResultAdded():
                self._result(event)
            case SettingsChanged(key="mode", value=value):
                self._mode = value
            case Compacted(summary=summary):
                self.summary = summary or self.summary
            case _:
                pass

    def _said(self, message: UserMessage) -> None:
        """What more than the user's words a message holds is news that is told again when need be, or a skill."""
        self.said.append(replace(message, text=message.shown or message.text, shown=""))
        if message.shown and not message.text.startswith(message.shown):
            self.skills[message.shown.split()[0]] = message.text

    def _result(self, result: ResultAdded) -> None:
        call, plan = self._calls.get(result.call_id), self._plans.pop(result.call_id, None)
        title = plan.title if plan else result.tool
        self.done.append(f"{'failed: ' if result.failed else ''}{title}")
        if result.tool == TODO and not result.failed:
            self.todos = (plan.preview if plan else "") or _items(call) or result.text
        elif result.tool == SKILL and not result.failed:
            self.skills[title] = result.text
        elif result.tool == ASK and not result.failed:
            self.said.append(UserMessage(result.call_id, f"(asked: {title}) {result.text}"))
        if plan is not None:
            self._changes(plan, result)

    def _changes(self, plan: CallPlanned, result: ResultAdded) -> None:
        if plan.kind in ("edit", "delete", "move") and not result.failed:
            for path in plan.paths:
                self.changed.pop(path, None)
                self.changed[path] = None
        if plan.kind == "execute" and result.failed:
            self.failure = (plan.title, result.text)
        elif plan.kind == "execute" and plan.title == self.failure[0]:
            self.failure = ("", "")


def _items(call: ToolCall | None) -> str:
    """The `items` of a todo call: a text, or a list of texts or of objects."""
    try:
        items: Any = json.loads(call.arguments).get("items") if call else None
    except (ValueError, AttributeError):
        return ""
    if isinstance(items, str):
        return items.strip()
    return "\n".join(f"- {_item(i)}" for i in cast("list[Any]", items)) if isinstance(items, list) else ""


def _item(item: Any) -> str:
    return " · ".join(str(v) for v in cast("dict[str, Any]", item).values()) if isinstance(item, dict) else str(item)


def last_lines(lines: Sequence[str], most: int) -> str:
    """As a list; a word about those that are left out."""
    left = len(lines) - most
    head = [f"- … {left} earlier ones"] if left > 0 else []
    return "\n".join([*head, *(f"- {line.splitlines()[0][:200]}" for line in lines[-most:] if line.strip())])
