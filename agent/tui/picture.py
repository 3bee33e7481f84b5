"""The conversation as a list of entries, folded from events. Durable events alone draw the same entries as all of
them; notes are beside the conversation and vanish with the screen. Knows nothing of widgets or widths."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from agent.commands.base import Line
from agent.events import (
    AssistantAdded,
    CallDelta,
    CallPlanned,
    Compacted,
    Event,
    FilesRestored,
    Notice,
    PermissionAsked,
    PermissionSettled,
    QuestionAsked,
    QueueChanged,
    ResultAdded,
    ServerChanged,
    SettingsChanged,
    ShellEnded,
    ShellStarted,
    StepRetrying,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    TurnEnded,
    TurnStarted,
)
from agent.forms import FormAsked, FormSettled
from agent.messages import AssistantMessage, Timings, ToolCall

CallState: TypeAlias = Literal["writing", "planned", "asking", "running", "ok", "failed", "cut"]
BROKEN_MOST = 2_000  # characters of a reply that broke off, to be seen beside the one that takes its place
OUTPUT_MOST = 200_000  # characters of live output kept for the screen


@dataclass(slots=True)
class Entry:
    """`version` grows with each change, so that a cell is drawn again only when it must be."""

    key: str
    version: int = field(default=0, compare=False)


@dataclass(slots=True)
class Said(Entry):
    text: str = ""
    steered: bool = False


@dataclass(slots=True)
class Thought(Entry):
    text: str = ""
    live: bool = False


@dataclass(slots=True)
class Answer(Entry):
    text: str = ""
    live: bool = False


@dataclass(slots=True)
class Call(Entry):
    tool: str = ""
    state: CallState = "planned"
    kind: str = "other"
    title: str = ""
    command: str | None = None
    preview: str = ""
    output: str = ""
    tail: str = ""  # of a running call: what stands behind the output and may still change
    seconds: float = 0.0
    denied: bool = False
    paths: tuple[str, ...] = ()
    continued: bool = False  # a later edit of this turn shows the whole change of the file
    mending: tuple[str, ...] = ()


@dataclass(slots=True)
class End(Entry):
    outcome: str = "done"
    detail: str = ""
    seconds: float = 0.0
    waited: float = 0.0
    timings: tuple[Timings, ...] = ()
    text: str = ""


@dataclass(slots=True)
class Note(Entry):
    """`draw`: its rows for a width, where it is laid out; `text` is then its plain form."""

    level: Literal["info", "warning", "error"] = "info"
    text: str = ""
    draw: Callable[[int], Sequence[Line]] | None = None


class Picture:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.queue: tuple[tuple[str, str], ...] = ()  # texts that wait, and what they are: next or queued
        self.asking: list[PermissionAsked] = []
        self.forms: list[FormAsked] = []
        self.question: QuestionAsked | None = None
        self.todo: tuple[str, ...] = ()
        self.mode: str | None = None
        self.removed = 0  # grows when an entry goes away: positions have changed
        self._by_key: dict[str, Entry] = {}
        self._open: list[str] = []
        self._timings: list[Timings] = []
        self._notes = self._compactions = 0

    @property
    def conversation(self) -> list[Entry]:
        """Without the notes: what durable events alone draw."""
        return [e for e in self.entries if not isinstance(e, Note) and not e.key.startswith("diff-")]

    def note(
        self,
        text: str,
        level: Literal["info", "warning", "error"] = "info",
        draw: Callable[[int], Sequence[Line]] | None = None,
    ) -> None:
        self._notes += 1
        self._add(Note(f"note-{self._notes}", level=level, text=text, draw=draw))

    def diff(self, text: str) -> None:
        """Beside the conversation, as a note is."""
        self._notes += 1
        self._add(Call(f"diff-{self._notes}", tool="diff", state="ok", kind="edit", preview=text))

    def apply(self, event: Event) -> None:
        match event:
            case TurnStarted(message=message, steered=steered):
                if not steered:
                    self._timings = []
                self._add(Said(f"user-{message.id}", text=message.shown or message.text, steered=steered))
                self._to_do(message.points)
            case StepStarted():
                self._drop_open()
            case TextDelta(message_id=key, text=text):
                self._answer(key, live=True).text += text
            case ThinkingDelta(message_id=key, text=text):
                self._thought(key, live=True).text += text
            case CallDelta():
                self._call_delta(event)
            case AssistantAdded(message=message):
                self._reply(message)
            case CallPlanned():
                self._planned(event)
            case FormAsked():
                self.forms.append(event)
            case FormSettled(request_id=request_id):
                self.forms = [f for f in self.forms if f.request_id != request_id]
            case PermissionAsked(plan=plan):
                self.asking.append(event)
                self._planned(plan).state = "asking"
            case PermissionSettled(call_id=call_id, decision=decision):
                self.asking = [a for a in self.asking if a.plan.call_id != call_id]
                call = self._call(call_id)
                call.denied = decision == "denied"
                call.state = "planned" if call.denied else "running"
            case QuestionAsked(call_id=call_id):
                self.question = event
                self._call(call_id).state = "asking"
            case ToolProgress(call_id=call_id, text=text, tail=tail):
                call = self._call(call_id)
                call.state = "running"
                call.output = (call.output + text)[-OUTPUT_MOST:]
                call.tail = call.tail if tail is None else tail
            case ResultAdded():
                self._result(event)
            case TurnEnded():
                self._drop_open()
                self.asking, self.question = [], None
                end = End(f"end-{event.turn}", outcome=event.outcome, detail=event.detail, seconds=event.seconds)
                end.waited, end.timings = event.waited, tuple(self._timings)
                self._add(end)
            case _:
                self._beside(event)

    def _beside(self, event: Event) -> None:
        match event:
            case Compacted():
                end = End(f"compacted-{self._compactions}", outcome="compacted", detail=event.sentence)
                self._compactions += 1
                end.text = event.summary
                self._add(end)
            case ShellStarted(call_id=call_id, command=command):
                call = self._call(call_id)
                call.tool, call.kind, call.command, call.state = "!", "execute", command.strip(), "running"
            case ShellEnded(call_id=call_id):
                call = self._call(call_id)
                call.state = "failed" if event.failed else "ok"
                call.output, call.tail, call.seconds = event.text, "", event.seconds
            case FilesRestored():
                self._add(End(f"restored-{len(self.entries)}", outcome="restored", detail=event.words))
            case SettingsChanged(key="mode", value=value):
                self.mode = value
            case QueueChanged(texts=texts, steering=steering):
                self.queue = tuple((text, "next" if n < steering else "queued") for n, text in enumerate(texts))
            case StepRetrying(attempt=attempt, why=why):
                broken = self._by_key.get(next((k for k in reversed(self._open) if k.startswith("text-")), ""))
                self._drop_open()
                if isinstance(broken, Answer):
                    self.note(broken.text[-BROKEN_MOST:])
                self.note(f"Trying again ({attempt}): {why}", "warning")
            case Notice(level=level, text=text):
                self.note(text, level)
            case ServerChanged(state=state) if state.kind == "ready" and state.note:
                self.note(state.note, "warning")
            case ServerChanged(state=state) if state.kind == "failed":
                self.note("\n".join([f"The engine failed: {state.why}", *state.last_words[-6:]]), "error")
            case _:
                pass

    # ---- entries
    def _add(self, entry: Entry) -> Any:
        self.entries.append(entry)
        self._by_key[entry.key] = entry
        return entry

    def _keep(self, entry: Entry | None) -> None:
        """What was streamed stays the same entry when it becomes durable: it has been drawn already."""
        if entry is not None and entry.key not in self._by_key:
            self._add(entry)

    def _entry(self, key: str, kind: type[Entry], live: bool) -> Any:
        entry = self._by_key.get(key)
        if entry is None:
            entry = self._add(kind(key))
            if live:
                self._open.append(key)
        entry.version += 1
        return entry

    def _answer(self, message_id: str, live: bool) -> Answer:
        answer: Answer = self._entry(f"text-{message_id}", Answer, live)
        answer.live = live
        return answer

    def _thought(self, message_id: str, live: bool) -> Thought:
        thought: Thought = self._entry(f"think-{message_id}", Thought, live)
        thought.live = live
        return thought

    def _call(self, call_id: str) -> Call:
        return cast(Call, self._entry(f"call-{call_id}", Call, live=False))

    def _call_delta(self, event: CallDelta) -> None:
        call: Call = self._entry(f"live-{event.message_id}-{event.index}", Call, live=True)
        call.state = "writing"
        call.tool = event.name or call.tool
        call.preview += event.text

    def _drop_open(self) -> None:
        """What came live and never became durable goes."""
        gone = set(self._open)
        self._open = []
        if gone:
            self.entries = [e for e in self.entries if e.key not in gone]
            self.removed += 1
            for key in gone:
                self._by_key.pop(key, None)

    def _reply(self, message: AssistantMessage) -> None:
        self._timings.append(message.timings)
        said, thought = self._by_key.get(f"text-{message.id}"), self._by_key.get(f"think-{message.id}")
        self._drop_open()
        if message.thinking.strip():
            self._keep(thought)
            self._thought(message.id, live=False).text = message.thinking
        if message.text.strip():
            self._keep(said)
            self._answer(message.id, live=False).text = message.text
        for call in message.calls:
            entry = self._call(call.id)
            entry.tool, entry.title = call.name, summary_of(call)
            if call.recovered:
                entry.mending = ("recovered",)
        for n, call in enumerate(message.cut):
            self._add(Call(f"cut-{message.id}-{n}", tool=call.name, state="cut", preview=call.arguments))

    def _planned(self, plan: CallPlanned) -> Call:
        call = self._call(plan.call_id)
        call.tool, call.kind, call.title = plan.tool, plan.kind, plan.title or call.title
        call.command, call.preview, call.paths = plan.command, plan.preview, plan.paths
        call.mending = (*(m for m in call.mending if m == "recovered"), *plan.mending)
        return call

    def _result(self, event: ResultAdded) -> None:
        call = self._call(event.call_id)
        call.tool = event.tool
        call.state = "failed" if event.failed else "ok"
        call.output, call.tail = event.display or event.text, ""
        call.seconds = event.seconds
        if self.question is not None and self.question.call_id == event.call_id:
            self.question = None
        if event.failed:
            pass
        elif call.tool == "todo":
            self.todo, call.output = tuple(call.preview.split("\n")), ""
        elif call.tool == "skill":
            lines = event.display.split("\n")
            self._to_do([line.removeprefix("☐ ") for line in lines if line.startswith("☐ ")])
        elif call.kind == "edit" and event.display:
            self._one_diff(call, event.display)
        self.asking = [a for a in self.asking if a.plan.call_id != event.call_id]

    def _to_do(self, points: Sequence[str]) -> None:
        """The check list of a skill, whoever has started it, behind what is to be done already."""
        self.todo = tuple(dict.fromkeys((*self.todo, *(f"[ ] {point}" for point in points))))

    def _one_diff(self, call: Call, diff: str) -> None:
        """Several edits of one file in one turn are one diff, at the last of them."""
        for entry in reversed(self.entries):
            if isinstance(entry, Said) and not entry.steered:
                break
            if isinstance(entry, Call) and entry is not call and entry.kind == "edit" and entry.paths == call.paths:
                entry.continued = True
                entry.version += 1
        call.preview = diff


def summary_of(call: ToolCall) -> str:
    """The first text among the arguments, for a call that has no plan yet."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return ""
    if not isinstance(arguments, dict):
        return ""
    values = cast(dict[str, Any], arguments).values()
    return next((v for v in values if isinstance(v, str)), "")
