"""What stands between conversation and composer and wants something of the user: a permission, an answer, a line for a
command, and the list of what is to be done. Only one of them has the keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.widget import Widget

from agent.events import Process
from agent.tui.approval import Approval
from agent.tui.choices import Choices
from agent.tui.composer import Composer
from agent.tui.formdock import FormDock
from agent.tui.keyboard import Keyboard
from agent.tui.picture import Picture
from agent.tui.question import Question
from agent.tui.todo import TodoList


class Docks:
    def __init__(self, picture: Picture, choices: Choices, composer: Composer) -> None:
        self._picture = picture
        self._choices = choices
        self._composer = composer
        self.todo, self.approval, self.question, self.keyboard = TodoList(), Approval(), Question(), Keyboard()
        self.form = FormDock(choices.fill)
        self.approval.border_title = "Allow this?"

    def widgets(self) -> Iterator[Widget]:
        yield from (self.todo, self.approval, self.question, self.form, self.keyboard)

    def show(self, processes: Sequence[Process]) -> None:
        asking = self._picture.asking[0] if self._picture.asking else None
        had = self.approval.asked is not None
        self.approval.ask(asking, self._composer.last_key)
        if had and asking is None:
            self._composer.focus()
        self.todo.show(self._picture.todo)
        self.show_choice()
        busy = asking is not None or self.question.asked is not None
        written = bool(self._composer.text)
        if self.form.show(() if busy else self._picture.forms, self._composer.last_key, written):
            self._composer.focus()
        free = not busy and self.form.asked is None and not self._composer.text
        self._show_keyboard(next((p for p in processes if p.asks is not None), None), free)

    def show_choice(self) -> None:
        had = self.question.asked is not None
        self.question.ask(None if self.approval.asked else self._choices.now(self._picture.question))
        if had and self.question.asked is None and self.approval.asked is None:
            self._composer.focus()

    def _show_keyboard(self, waiting: Process | None, free: bool) -> None:
        had = self.keyboard.has_focus_within
        if self.keyboard.ask(waiting, self._composer.last_key, free):
            self.keyboard.take_keys()
        elif had and self.keyboard.asked is None:
            self._composer.focus()

    def emptied(self) -> None:
        """Nothing is being written any more: the keys go back to what waits for a choice."""
        if self.approval.asked:
            self.approval.focus()
        elif self.question.asked and self.question.asked.options:
            self.question.focus()
        elif self.form.plain:
            self.form.focus()

    def focus(self) -> None:
        next((d for d in (self.approval, self.question, self.form) if d.asked), self._composer).focus()
