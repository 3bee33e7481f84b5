"""Where the user types. Never loses a line: long pastes are kept beside the text and sent whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual import events
from textual.message import Message
from textual.widgets import TextArea

PASTE_LINES, PASTE_CHARS = 5, 1000  # a longer paste becomes one token in the text
NEWLINE_KEYS = ("shift+enter", "ctrl+j")
QUEUE_KEYS = ("alt+enter", "ctrl+enter")


class Composer(TextArea):
    """Posts Sent. `history` holds earlier messages, oldest first."""

    @dataclass
    class Sent(Message):
        """`how`: join the running turn, or wait for its end."""

        text: str
        how: Literal["steer", "queue"]

    def __init__(self) -> None:
        super().__init__(id="composer", soft_wrap=True, show_line_numbers=False, tab_behavior="focus", compact=True)
        self.placeholder = "Ask, or describe what to build"
        self.highlight_cursor_line = False
        self._pasted: dict[str, str] = {}
        self._history: list[str] = []
        self._at = 0
        self._draft = ""

    def whole_text(self) -> str:
        """What will be sent: pastes in full."""
        text = self.text
        for token, pasted in self._pasted.items():
            text = text.replace(token, pasted)
        return text

    def take(self) -> str:
        text = self.whole_text()
        if text.strip():
            self._history.append(self.text if len(self.text) < 4000 else text[:4000])
        self._at = len(self._history)
        self.text = ""
        self._pasted.clear()
        return text

    def put_back(self, text: str) -> None:
        """Text that was not sent goes before what is being typed."""
        if text.strip():
            self.text = f"{text}\n{self.text}" if self.text else ""
            if not self.text:
                self._insert_paste(text)
            self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter" or event.key in QUEUE_KEYS:
            event.stop()
            event.prevent_default()
            if self.text.strip():
                self.post_message(self.Sent(self.take(), "queue" if event.key in QUEUE_KEYS else "steer"))
        elif event.key in NEWLINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif (event.key == "up" and self.cursor_location[0] == 0) or (
            event.key == "down" and self.cursor_location[0] == self.document.line_count - 1
        ):
            if self._recall(-1 if event.key == "up" else 1):
                event.stop()
                event.prevent_default()
        else:
            await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self._insert_paste(event.text.replace("\r\n", "\n").replace("\r", "\n"))

    def _insert_paste(self, text: str) -> None:
        lines = text.count("\n") + 1
        if lines > PASTE_LINES or len(text) > PASTE_CHARS:
            size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
            token = f"[Pasted {size} #{len(self._pasted) + 1}]"
            self._pasted[token] = text
            text = token
        self.insert(text)

    def _recall(self, step: int) -> bool:
        to = self._at + step
        if not 0 <= to <= len(self._history):
            return False
        if self._at == len(self._history):
            self._draft = self.text
        self._at = to
        self.text = self._draft if to == len(self._history) else self._history[to]
        self.move_cursor(self.document.end)
        return True
