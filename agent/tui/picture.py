"""What the transcript shows, folded from events. Pure: no widgets, no widths.

At rest, the picture folded from durable events alone is the same as the one that was folded live.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agent.events import (
    AssistantAdded,
    CallDelta,
    CallPlanned,
    Compacted,
    Event,
    Notice,
    PermissionAsked,
    PermissionSettled,
    PlanKind,
    ResultAdded,
    ServerChanged,
    StepRetrying,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    TurnEnded,
    TurnStarted,
)

CallState: TypeAlias = Literal["writing", "planned", "asking", "running", "ok", "failed"]


@dataclass(frozen=True, slots=True)
class UserCell:
    text: str
    steered: bool = False


@dataclass(frozen=True, slots=True)
class ThoughtCell:
    text: str
    open: bool = False


@dataclass(frozen=True, slots=True)
class AnswerCell:
    text: str
    open: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class CallCell:
    tool: str
    kind: PlanKind
    title: str
    state: CallState
    command: str = ""
    preview: str = ""
    output: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class NoteCell:
    level: Literal["info", "warning", "error"]
    text: str


Cell: TypeAlias = UserCell | ThoughtCell | AnswerCell | CallCell | NoteCell


class Picture:
    """`cells` by key, in order; `changed` collects the keys touched since it was last taken."""

    def __init__(self) -> None:
        self.cells: dict[str, Cell] = {}
        self._changed: set[str] = set()
        self._numbers = 0

    def take_changed(self) -> set[str]:
        changed, self._changed = self._changed, set()
        return changed

    def settled(self) -> list[Cell]:
        """Without what only a live view has: the notes of the moment."""
        return [cell for key, cell in self.cells.items() if not key.startswith("note:")]

    def note(self, level: Literal["info", "warning", "error"], text: str, key: str = "note") -> None:
        self._numbers += 1
        self._set(f"{key}:{self._numbers}", NoteCell(level, text))

    def apply(self, event: Event) -> None:
        match event:
            case TurnStarted(message=message, steered=steered):
                self._set(f"user:{message.id}", UserCell(message.text, steered))
            case ThinkingDelta(message_id=m, text=text):
                old = self.cells.get(f"thought:{m}")
                self._set(f"thought:{m}", ThoughtCell((old.text if isinstance(old, ThoughtCell) else "") + text, True))
            case TextDelta(message_id=m, text=text):
                old = self.cells.get(f"answer:{m}")
                self._set(f"answer:{m}", AnswerCell((old.text if isinstance(old, AnswerCell) else "") + text, True))
            case CallDelta(message_id=m, index=index, name=name, text=text):
                old = self.cells.get(f"writing:{m}:{index}")
                size = len(text) + (len(old.output) if isinstance(old, CallCell) else 0)
                self._set(f"writing:{m}:{index}", CallCell(name, "other", "", "writing", output="·" * size))
            case AssistantAdded():
                self._reply(event)
            case CallPlanned():
                self._set(f"call:{event.call_id}", _planned(event))
            case PermissionAsked(plan=plan):
                self._set(f"call:{plan.call_id}", replace(_planned(plan), state="asking"))
            case PermissionSettled(call_id=call_id, decision=decision):
                self._update(call_id, "planned" if decision == "denied" else "running")
            case ToolProgress(call_id=call_id, text=text):
                cell = self.cells.get(f"call:{call_id}")
                if isinstance(cell, CallCell):
                    self._set(f"call:{call_id}", replace(cell, output=cell.output + text))
            case ResultAdded():
                self._result(event)
            case TurnEnded(outcome=outcome, detail=detail):
                self._ended(event.turn, outcome, detail)
            case Compacted(dropped_messages=count):
                self.note("info", f"Compacted: {count} messages became a summary.", "durable")
            case Notice(level=level, text=text):
                self.note(level, text)
            case StepRetrying(why=why, attempt=attempt):
                self.note("warning", f"Trying again ({attempt}): {why}")
            case ServerChanged(state=state) if state.kind == "failed":
                self.note("error", "\n".join([state.why, *state.last_words[-6:]]))
            case _:
                pass

    # ---- parts
    def _reply(self, event: AssistantAdded) -> None:
        message = event.message
        for key in [k for k in self.cells if k.startswith(f"writing:{message.id}:")]:
            self._drop(key)
        for key in (f"thought:{message.id}", f"answer:{message.id}"):  # thought first, whatever came first
            self._drop(key)
        if message.thinking.strip():
            self._set(f"thought:{message.id}", ThoughtCell(message.thinking))
        if message.text.strip():
            cut = message.finish in ("interrupted", "error", "length")
            self._set(f"answer:{message.id}", AnswerCell(message.text, cut=cut))

    def _result(self, event: ResultAdded) -> None:
        old = self.cells.get(f"call:{event.call_id}")
        base = old if isinstance(old, CallCell) else CallCell(event.tool, "other", event.tool or "?", "planned")
        state: CallState = "failed" if event.failed else "ok"
        output = event.display or event.text
        self._set(f"call:{event.call_id}", replace(base, state=state, output=output, seconds=event.seconds))

    def _ended(self, turn: int, outcome: str, detail: str) -> None:
        for key, cell in list(self.cells.items()):
            if key.startswith("writing:"):
                self._drop(key)
            elif isinstance(cell, ThoughtCell | AnswerCell) and cell.open:
                self._set(key, replace(cell, open=False))
        if outcome == "interrupted":
            self._set(f"end:{turn}", NoteCell("warning", "Interrupted."))
        elif outcome != "done":
            self._set(f"end:{turn}", NoteCell("error" if outcome == "failed" else "warning", detail))

    def _update(self, call_id: str, state: CallState) -> None:
        cell = self.cells.get(f"call:{call_id}")
        if isinstance(cell, CallCell):
            self._set(f"call:{call_id}", replace(cell, state=state))

    def _set(self, key: str, cell: Cell) -> None:
        self.cells[key] = cell
        self._changed.add(key)

    def _drop(self, key: str) -> None:
        if self.cells.pop(key, None) is not None:
            self._changed.add(key)


def _planned(event: CallPlanned) -> CallCell:
    return CallCell(event.tool, event.kind, event.title, "planned", event.command or "", event.preview)
