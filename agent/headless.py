"""One prompt without a screen: stdout is the answer (or JSON), stderr the rest, and nobody is ever asked."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from agent.codec import to_json
from agent.commands.base import Ask, Command, Diff, Registry, Said
from agent.core import stats
from agent.core.session import Session
from agent.errors import AgentError, ConfigError
from agent.events import (
    DURABLE,
    AssistantAdded,
    Compacted,
    DurableEvent,
    Event,
    Notice,
    ServerChanged,
    StepRetrying,
    TurnEnded,
)
from agent.progress import Lines

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]

EXIT_CODES = {"done": 0, "failed": 1, "denied": 4, "limit": 5, "interrupted": 130}
EXIT_NO_ENGINE = 3
NO_ENGINE_KINDS = ("engine", "server")


async def _understood(prompt: str, commands: Registry) -> Ask | tuple[Command, str]:
    """A message to the model, or a command with its argument. Raises ConfigError."""
    written = commands.read(prompt)
    if written is None:
        return Ask(prompt)
    command, name, argument = written
    command = command or await commands.arriving(name)
    if command is None or not command.headless:
        known = ", ".join(f"/{c.name}" for c in commands if c.headless)
        why = "There is no command" if command is None else "Without the screen there is no"
        raise ConfigError(f"{why} /{name}; there are: {known}.")
    return command, argument


async def run(
    session: Session,
    prompt: str,
    output: OutputFormat,
    write: Callable[[str], None],
    tell: Callable[[str], None],
    commands: Registry,
) -> int:
    """Runs one turn, or one slash command, and returns the exit code. `write` takes text for stdout, `tell` one line
    for stderr. Raises ConfigError for a command that is not there, or needs a screen."""
    asked = await _understood(prompt, commands)
    known = len(session.past)
    events: list[DurableEvent] = []
    subscription = session.subscribe()
    stopped_by: list[signal.Signals] = []
    loop = asyncio.get_running_loop()
    beside: list[asyncio.Task[Any]] = []

    def stop(number: signal.Signals) -> None:
        if not stopped_by:
            beside.append(loop.create_task(session.cancel()))
        stopped_by.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    said = _Told(tell)
    without_turn: list[tuple[TurnEnded, str]] = []  # how a command ended, and its answer

    async def obey(command: Command, argument: str) -> None:
        if (end := await _obeyed(command, argument, session, stopped_by)) is not None:
            without_turn.append(end)
            subscription.close()

    if isinstance(asked, Ask):
        session.submit(asked.text, shown=asked.shown, allowed=asked.allowed, points=asked.points)
    else:
        beside.append(loop.create_task(obey(*asked)))
    async for event in subscription:
        if not isinstance(event, DURABLE):
            said.about(event)
            continue
        if known:  # what a resumed session already holds
            known -= 1
            continue
        events.append(event)
        if output == "stream-json":
            write(json.dumps(to_json(event), ensure_ascii=False) + "\n")
        said.about(event)
        if isinstance(event, TurnEnded):
            break
    subscription.close()
    await asyncio.gather(*beside)
    ended, text = without_turn[0] if without_turn else _of_turn(events)
    if output != "text":
        write(json.dumps(_result(session.id, ended, text, events), ensure_ascii=False) + "\n")
    elif text:
        write(text if text.endswith("\n") else text + "\n")
    if ended.detail:
        said.once(ended.detail)
    return 128 + stopped_by[0] if stopped_by else _exit_code(ended)


def _exit_code(ended: TurnEnded) -> int:
    if ended.outcome == "failed" and ended.kind in NO_ENGINE_KINDS:
        return EXIT_NO_ENGINE
    return EXIT_CODES[ended.outcome]


async def _obeyed(
    command: Command, argument: str, session: Session, stopped_by: list[signal.Signals]
) -> tuple[TurnEnded, str] | None:
    """How the command ended and what it answered; None: it began a turn."""
    try:
        answer = await command.run(argument)
    except AgentError as error:
        return TurnEnded(0, "interrupted" if stopped_by else "failed", str(error), error.kind), ""
    if isinstance(answer, Ask):
        session.submit(answer.text, shown=answer.shown, allowed=answer.allowed)
        return None
    return TurnEnded(0, "done"), answer.text if isinstance(answer, Said | Diff) else ""


def _of_turn(events: list[DurableEvent]) -> tuple[TurnEnded, str]:
    text = next((e.message.text for e in reversed(events) if isinstance(e, AssistantAdded) and e.message.text), "")
    return next(e for e in events if isinstance(e, TurnEnded)), text


def failure(kind: str, message: str) -> str:
    """The result object where no session could be opened; one line."""
    ended = TurnEnded(0, "failed", message, kind)
    return json.dumps(_result(None, ended, "", []), ensure_ascii=False) + "\n"


def _result(session_id: str | None, ended: TurnEnded, text: str, events: list[DurableEvent]) -> dict[str, Any]:
    error = (
        None
        if ended.outcome == "done"
        else {"kind": ended.kind or ended.outcome, "message": ended.detail or "It was stopped."}
    )
    return {
        "event": "Result",
        "status": ended.outcome,
        "text": text,
        "session": session_id,
        "error": error,
        "stats": (whole := stats.total(events)).as_json(),
        "turns": [step.as_json() for step in stats.steps(events)],
        "kinds": {
            s.kind: {"tokens": s.tokens, "draft_tokens": s.drafted, "accepted_tokens": s.accepted} for s in whole.split
        }
        or None,
    }


class _Told:
    """What a person at stderr should know while it works; each thing once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._said: set[str] = set()
        self._phases = Lines()

    def about(self, event: Event) -> None:
        match event:
            case Notice(text=text):
                self.once(text)
            case Compacted():
                self.once(event.sentence)
            case StepRetrying(why=why, attempt=attempt):
                self.once(f"Retrying ({attempt}): {why}")
            case ServerChanged(state=state) if state.kind == "starting" and state.phase:
                if line := self._phases.line(state.phase):
                    self._tell(f"engine: {line}")
            case ServerChanged(state=state) if state.kind == "ready" and state.note:
                self.once(state.note)
            case ServerChanged(state=state) if state.kind == "failed":
                self.once(state.why, "\n".join([*state.last_words[-5:], f"engine: {state.why}"]))
            case _:
                pass

    def once(self, what: str, text: str = "") -> None:
        """`text`: how to say it."""
        if what not in self._said:
            self._said.add(what)
            self._tell(text or what)
