"""What stands at the beginning of every request of a session: fixed when it begins, the same bytes after a resume,
whatever has changed meanwhile. What has changed is told in the newest message of the user instead."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any

from agent.messages import Message, Prefix, UserMessage

TOLD = 4_000  # characters of changes that are told; of more, the beginning
HEADING = "Since this conversation began, what stands at its beginning has changed:"
AS_BEFORE = "What stands at the beginning of this conversation holds again as it is there."


def news(fixed: Prefix, now: Prefix, history: Iterable[Message]) -> str:
    """What is to be told along with the next message; "" when there is nothing, or it has been told already."""
    change = _change(fixed, now)
    for message in reversed(list(history)):
        if isinstance(message, UserMessage) and (HEADING in message.text or AS_BEFORE in message.text):
            if change:
                return "" if change in message.text else change
            return AS_BEFORE if HEADING in message.text else ""
    return change


def _change(fixed: Prefix, now: Prefix) -> str:
    told: list[str] = []
    if fixed.system != now.system:
        lines = difflib.unified_diff(fixed.system.splitlines(), now.system.splitlines(), n=0, lineterm="")
        told += [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    old, new = _tools(fixed.tools), _tools(now.tools)
    if gone := [name for name in old if name not in new]:
        told.append(f"These tools are no longer there: {', '.join(gone)}.")
    changed = [name for name in old if new.get(name, old[name]) != old[name]]
    told += [f"The tool {name} is now: {json.dumps(new[name], ensure_ascii=False)}" for name in changed]
    text = "\n".join(told)
    cut = text if len(text) <= TOLD else text[:TOLD] + "\n[the rest is left out]"
    return f"{HEADING}\n{cut}" if text else ""


def _tools(tools: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = json.loads(tools) if tools else []
    return {str(e["function"]["name"]): e["function"] for e in entries}
