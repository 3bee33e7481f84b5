"""What changes between two messages and the model must know: said with the newest message, so that no earlier byte of
the conversation moves."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.permissions import Mode
from agent.errors import ContextOverflow
from agent.events import AssistantAdded, Compacted, DurableEvent, TurnEnded, TurnStarted

PLAN = (
    "[Plan mode: look around, change nothing; only reading is allowed. End with a short numbered plan of what you would "
    "do, for the user to accept.]"
)
PLAN_OVER = "[Plan mode is over: changes are allowed now.]"


def note_for(mode: Mode, past: Sequence[DurableEvent]) -> str:
    """Empty when the model knows all that holds."""
    if mode == "plan":
        return "" if _planning(past) else PLAN
    return PLAN_OVER if _planning(past) else ""


def _planning(past: Sequence[DurableEvent]) -> bool:
    """Does the model believe in plan mode? What a summary replaced, or was taken back, it has not heard."""
    believed = before = False
    for event in past:
        match event:
            case TurnStarted(message=message):
                before = believed
                believed = (believed or PLAN in message.text) and PLAN_OVER not in message.text
            case TurnEnded(kind=ContextOverflow.kind):
                believed = before
            case AssistantAdded():
                before = believed
            case Compacted():
                believed = before = False
            case _:
                pass
    return believed
