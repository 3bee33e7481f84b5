"""What the choice dock shows and what a choice does: the model's question, or what to do with its plan. Knows the
session's methods; draws nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from agent.core.permissions import Mode
from agent.core.session import Session
from agent.events import QuestionAsked
from agent.tui.form import Value
from agent.tui.picture import Picture, Said
from agent.tui.question import Asked, Option, options

GO = "Carry out the plan."
EDITED = "Carry out this plan:"
TWICE = 0.8  # seconds between two Esc that belong together
CALM = 1.0  # seconds after a turn within which Esc still means that turn
FREE = "Enter chooses · or write another answer"


class Host(Protocol):
    """The chat, as far as choices need it."""

    session: Session | None

    picture: Picture

    def show_choice(self) -> None: ...
    def take(self, text: str, *, queued: bool) -> None: ...
    def write(self, text: str) -> None: ...
    def action_stop(self) -> None: ...


class Choices:
    """`own`: a choice of the screen itself, which waits behind a question of the model's."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.own: Asked | None = None
        self._ended = self._escaped = -TWICE

    def now(self, question: QuestionAsked | None) -> Asked | None:
        if question is None:
            return self.own
        request_id, words = question.request_id, question.options

        def choose(n: int) -> None:
            self.reply(request_id, words[n])

        free = FREE if words else "Write your answer"
        return Asked(request_id, "A question", question.question, options(words), choose, self._host.action_stop, free)

    def reply(self, request_id: str, text: str) -> None:
        if self._host.session is not None:
            self._host.session.reply(request_id, text)

    def fill(self, request_id: str, choice: str, content: Mapping[str, Value]) -> None:
        if self._host.session is not None:
            self._host.session.forms.fill(request_id, choice, content)

    def close(self) -> None:
        self.own = None
        self._host.show_choice()

    def offer(self, asked: Asked) -> None:
        self.own = asked
        self._host.show_choice()

    def ended(self) -> None:
        """A turn has ended: who stops one presses Esc more than once."""
        self._ended = time.monotonic()

    def escaped(self) -> None:
        """Esc while nothing runs and nothing is written; the second one asks whether to undo."""
        now = time.monotonic()
        if now - self._ended > CALM and now - self._escaped < TWICE:
            self._undo()
        self._escaped = now

    def _undo(self) -> None:
        last = self._host.session.changes.last() if self._host.session is not None else None
        if last is None:
            self._host.take("/undo", queued=True)  # it says why there is nothing
            return
        turn, files = last
        words = next((e.text for e in reversed(self._host.picture.entries) if isinstance(e, Said)), "")

        def put_back(rewrite: bool) -> None:
            self.close()
            self._host.take("/undo", queued=True)
            if rewrite:
                self._host.write(words)

        acts = (lambda: put_back(False), lambda: put_back(True), self.close)
        names = ", ".join(files[:6]) + (f" and {len(files) - 6} more" if len(files) > 6 else "")
        choices = options(("Put the files back", "Put them back and write the message anew", "Leave all as it is"))
        self.offer(Asked(f"undo-{turn}", "Undo", f"The last change: {names}", choices, lambda n: acts[n](), self.close))

    def plan_ready(self, turn: int, plan: str) -> None:
        """The turn has ended in plan mode."""

        def go(mode: Mode, text: str) -> None:
            self.close()
            if (session := self._host.session) is not None:
                session.set_mode(mode)
                if text:
                    session.submit(text)

        def edit() -> None:
            go("ask", "")
            self._host.write(f"{EDITED}\n\n{plan.strip()}\n")

        acts: tuple[tuple[Option, Callable[[], None]], ...] = (
            (Option("Carry it out", "each change is asked"), lambda: go("ask", GO)),
            (Option("Carry it out, edits need no question"), lambda: go("accept-edits", GO)),
            (Option("Change the plan first"), edit),
            (Option("Keep planning"), self.close),
        )
        words = tuple(option for option, _ in acts)
        self.offer(
            Asked(
                f"plan-{turn}",
                "The plan",
                "",
                words,
                lambda n: acts[n][1](),
                self.close,
                "Enter chooses · or say what to change",
            )
        )
