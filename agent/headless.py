"""One prompt without a screen: stdout is the answer (or JSON), stderr the rest, and nobody is ever asked."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from agent.codec import to_json
from agent.commands.base import Ask, Diff, Registry, Said
from agent.core.session import Session
from agent.core.stats import step_figures, total_figures
from agent.errors import ConfigError
from agent.events import (
    DURABLE,
    AssistantAdded,
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


async def _understood(prompt: str, commands: Registry) -> Ask | Said:
    """What a prompt says to the model, or what the slash command in it answers. Raises AgentError."""
    written = commands.read(prompt)
    if written is None:
        return Ask(prompt)
    command, name, argument = written
    if command is None or not command.headless:
        known = ", ".join(f"/{c.name}" for c in commands if c.headless)
        why = "There is no command" if command is None else "Without the screen there is no"
        raise ConfigError(f"{why} /{name}; there are: {known}.")
    answer = await command.run(argument)
    if isinstance(answer, Diff):
        return Said(answer.text)
    return answer if isinstance(answer, Ask | Said) else Said("")


async def run(
    session: Session,
    prompt: str,
    output: OutputFormat,
    write: Callable[[str], None],
    tell: Callable[[str], None],
    commands: Registry,
) -> int:
    """Runs one turn, or one slash command, and returns the exit code. `write` takes text for stdout, `tell` one line
    for stderr. Raises AgentError for a command that cannot be run."""
    asked = await _understood(prompt, commands)
    if isinstance(asked, Said):
        _write_answer(session.id, TurnEnded(0, "done"), asked.text, [], output, write)
        return EXIT_CODES["done"]
    known = len(session.past)
    events: list[DurableEvent] = []
    subscription = session.subscribe()
    stopped_by: list[signal.Signals] = []
    loop = asyncio.get_running_loop()
    cancelling: list[asyncio.Task[Any]] = []

    def stop(number: signal.Signals) -> None:
        if not stopped_by:
            cancelling.append(loop.create_task(session.cancel()))
        stopped_by.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    session.submit(asked.text, shown=asked.shown, allowed=asked.allowed)
    said = _Told(tell)
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
        if isinstance(event, TurnEnded):
            break
    subscription.close()
    await asyncio.gather(*cancelling)
    ended = next(e for e in events if isinstance(e, TurnEnded))
    text = next((e.message.text for e in reversed(events) if isinstance(e, AssistantAdded) and e.message.text), "")
    _write_answer(session.id, ended, text, events, output, write)
    if ended.detail:
        said.once(ended.detail)
    if stopped_by:
        return 128 + stopped_by[0]
    if ended.outcome == "failed" and ended.kind in NO_ENGINE_KINDS:
        return EXIT_NO_ENGINE
    return EXIT_CODES[ended.outcome]


def _write_answer(
    session_id: str,
    ended: TurnEnded,
    text: str,
    events: list[DurableEvent],
    output: OutputFormat,
    write: Callable[[str], None],
) -> None:
    if output != "text":
        write(json.dumps(_result(session_id, ended, text, events), ensure_ascii=False) + "\n")
    elif text:
        write(text if text.endswith("\n") else text + "\n")


def failure(kind: str, message: str) -> str:
    """The result object where no session could be opened; one line."""
    ended = TurnEnded(0, "failed", message, kind)
    return json.dumps(_result(None, ended, "", []), ensure_ascii=False) + "\n"


def _result(session_id: str | None, ended: TurnEnded, text: str, events: list[DurableEvent]) -> dict[str, Any]:
    error = None if ended.outcome == "done" else {"kind": ended.kind or ended.outcome, "message": ended.detail}
    return {
        "event": "Result",
        "status": ended.outcome,
        "text": text,
        "session": session_id,
        "error": error,
        "stats": total_figures(events),
        "turns": step_figures(events),
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
