"""The dock in which the user types into a command that waits for input. Hands back what was typed; knows no processes
beyond what is said of them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static

from agent.events import Process
from agent.tui.cells.paper import clean, one_line

TYPING = 1.0  # seconds since the last key in the composer within which the next one still belongs there
# Keys that a menu takes at once, as a terminal sends them.
KEYS = {"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "space": " ", "tab": "\t"}


class Line(Input):
    """One line, or single keys while it is empty and the program takes those."""

    @dataclass
    class Key(Message):
        sent: str

    def __init__(self) -> None:
        super().__init__(compact=True)
        self.keys = False

    async def _on_key(self, event: events.Key) -> None:
        if self.keys and not self.value and event.key in KEYS:
            event.stop()
            event.prevent_default()
            self.post_message(self.Key(KEYS[event.key]))
        else:
            await super()._on_key(event)


class Keyboard(Vertical):
    @dataclass
    class Typed(Message):
        process_id: str
        text: str

    class Stop(Message):
        """Esc: stop the turn; what waits in the background is left alone."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Process | None = None
        self._put_aside: Process | None = None
        self._said = Static("", markup=False)
        self._line = Line()

    def compose(self) -> ComposeResult:
        yield self._said
        yield self._line

    def ask(self, process: Process | None, last_key: float, free: bool) -> bool:
        """True when the keys should come here now. `free`: nothing else wants them."""
        if process is None or process == self._put_aside:
            self.asked, self.display = None, False
            self._line.clear()
            return False
        if process != self.asked:
            new = self.asked is None or self.asked.id != process.id
            self.asked, self._put_aside = process, None
            self._said.update(clean(process.asks or ""))
            self._line.password, self._line.keys = process.hidden, process.keys
            self.border_title = one_line(
                f"Waits for you: {clean(process.command)}", max(10, self.screen.size.width - 8)
            )
            keys = "arrows and Enter choose" if process.keys else "Enter sends"
            self.border_subtitle = f"{keys} · Esc stops the turn"
            self.display = True
            if new:
                self._line.clear()
        return free and not self.has_focus_within and time.monotonic() - last_key > TYPING

    def take_keys(self) -> None:
        self._line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text, self._line.value = self._line.value, ""
        self._send(text)

    @on(Line.Key)
    def _key(self, event: Line.Key) -> None:
        event.stop()
        self._send(event.sent)

    def _send(self, text: str) -> None:
        if self.asked is not None:
            self.post_message(self.Typed(self.asked.id, text))

    def key_escape(self, event: events.Key) -> None:
        event.stop()
        self._put_aside = self.asked
        self.post_message(self.Stop())
