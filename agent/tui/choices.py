"""What the choice dock shows and what a choice does: the model's question, or what to do with its plan. Knows the
session's methods; draws nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent.core.permissions import Mode
from agent.core.session import Session
from agent.events import QuestionAsked
from agent.tui.question import Asked, Option, options

GO = "Carry out the plan."
EDITED = "Carry out this plan:"
FREE = "Enter chooses · or write another answer"


class Host(Protocol):
    """The chat, as far as choices need it."""

    session: Session | None

    def show_choice(self) -> None: ...
    def write(self, text: str) -> None: ...
    def action_stop(self) -> None: ...


class Choices:
    """`own`: a choice of the screen itself, which waits behind a question of the model's."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.own: Asked | None = None

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

    def close(self) -> None:
        self.own = None
        self._host.show_choice()

    def offer(self, asked: Asked) -> None:
        self.own = asked
        self._host.show_choice()

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
