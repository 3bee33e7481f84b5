"""What changes between two messages and the model must know: said with the newest message, so that no earlier byte of
the conversation moves."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.permissions import Mode
from agent.errors import ContextOverflow
from agent.events import (
    AssistantAdded,
    Compacted,
    DurableEvent,
    FilesRestored,
    ResultAdded,
    ShellEnded,
    TurnEnded,
    TurnStarted,
)

PLAN = (
    "[Plan mode: look around, change nothing; only reading is allowed. End with a short numbered plan of what you "
    "would do, for the user to accept.]"
)
RAN = "[Before this message the user ran this in a shell of his own:]"
PLAN_OVER = "[Plan mode is over: changes are allowed now.]"


def note_for(mode: Mode, past: Sequence[DurableEvent]) -> str:
    """Empty when the model knows all that holds."""
    planning = _planning(past)
    notes = [PLAN] if mode == "plan" and not planning else [PLAN_OVER] if mode != "plan" and planning else []
    return "\n".join([*_ran(past), *_restored(past), *notes])


def _ran(past: Sequence[DurableEvent]) -> list[str]:
    """What the user ran himself since the last message that the model has heard."""
    ran: list[str] = []
    unheard = False  # the message before left the conversation: it was too big
    for event in reversed(past):
        match event:
            case TurnEnded(kind=ContextOverflow.kind):
                unheard = True
            case AssistantAdded() | ResultAdded():
                unheard = False
            case TurnStarted() if not unheard:
                break
            case TurnStarted():
                unheard = False
            case ShellEnded():
                ran.append(f"$ {event.command.strip()}\n{event.text}")
            case _:
                pass
    return [RAN, *ran[::-1]] if ran else []


def _restored(past: Sequence[DurableEvent]) -> list[str]:
    """What the user did to files since the last message."""
    notes: list[str] = []
    for event in reversed(past):
        if isinstance(event, TurnStarted):
            break
        if isinstance(event, FilesRestored) and event.paths:
            act = "done again" if event.redone else "undone"
            notes.append(f"[The user has {act} your changes of turn {event.turn} to: {', '.join(event.paths)}.]")
    return notes[::-1]


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
