"""What of a conversation must survive word for word when it is compacted, folded from its durable events. Pure; knows
nothing of tokens or models. Folding all events, not only those of this epoch, keeps it whole over many compactions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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

TODO, SKILL = "todo", "skill"  # tools whose last word counts


@dataclass(slots=True)
class Remains:
    """said: the user's messages, oldest first. plan: the last answer given in plan mode. todos: the list as it stands.
    skills: texts by name. failure: the last command that failed and what it said, while it has not succeeded since.
    changed: files that were written, the last one last. done: a line for each call. summary: of the last compaction."""

    said: list[UserMessage] = field(default_factory=list[UserMessage])
    plan: str = ""
    todos: str = ""
    skills: dict[str, str] = field(default_factory=dict[str, str])
    failure: tuple[str, str] = ("", "")
    changed: dict[str, None] = field(default_factory=dict[str, None])
    done: list[str] = field(default_factory=list[str])
    summary: str = ""


def remains(events: Iterable[DurableEvent]) -> Remains:
    found = Remains()
    calls: dict[str, ToolCall] = {}
    plans: dict[str, CallPlanned] = {}
    unanswered, mode = False, ""
    for event in events:
        match event:
            case TurnStarted(message=message):
                _said(found, message)
                unanswered = True
            case TurnEnded(kind=ContextOverflow.kind) if unanswered and found.said:
                found.said.pop()  # as the history does: it could not be sent
            case AssistantAdded(message=message):
                unanswered = False
                calls = {c.id: c for c in message.calls}
                if mode == "plan" and message.text.strip() and not message.calls:
                    found.plan = message.text.strip()
            case CallPlanned(call_id=call_id):
                plans[call_id] = event
            case ResultAdded(call_id=call_id):
                _result(found, event, calls.get(call_id), plans.pop(call_id, None))
            case SettingsChanged(key="mode", value=value):
                mode = value
            case Compacted(summary=summary):
                found.summary = summary or found.summary
            case _:
                pass
    return found


def _said(found: Remains, message: UserMessage) -> None:
    """What more than the user's words a message holds is news that is told again when need be, or a skill."""
    found.said.append(replace(message, text=message.shown or message.text, shown=""))
    if message.shown and not message.text.startswith(message.shown):
        found.skills[message.shown.split()[0]] = message.text


def _result(found: Remains, result: ResultAdded, call: ToolCall | None, plan: CallPlanned | None) -> None:
    title = plan.title if plan else result.tool
    found.done.append(f"{'failed: ' if result.failed else ''}{title}")
    if result.tool == TODO and not result.failed:
        found.todos = _items(call) or result.text
    elif result.tool == SKILL and not result.failed:
        found.skills[title] = result.text
    if plan is None:
        return
    if plan.kind in ("edit", "delete", "move") and not result.failed:
        for path in plan.paths:
            found.changed.pop(path, None)
            found.changed[path] = None
    if plan.kind == "execute":
        if result.failed:
            found.failure = (title, result.text)
        elif title == found.failure[0]:
            found.failure = ("", "")


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
