"""Where the user writes. Turns keys into messages; knows nothing of sessions. A paste that is big, or holds what cannot
be shown plainly, is one token on the screen and whole in what is sent."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events, on
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import TextArea

from agent.tui.cells.paper import clean
from agent.tui.completion import Completion, Offer

SHELL = "!"  # what begins with it is a command that the user runs
PASTE_LINES, PASTE_CHARACTERS = 5, 1000  # above either a paste becomes a token
# Left to the library, these run when the key has bubbled up to the app: behind letters that were typed after them.
_EDITING = {
    key: binding.action
    for binding in TextArea.BINDINGS
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
    if key not in ("ctrl+c", "super+c", "pageup", "pagedown")
}
_TOKEN = re.compile(r"\[Pasted [\d,]+ (?:lines|characters) #(\d+)\]")


def ignore(_text: str) -> None:
    pass


def nothing_waits() -> str:
    return ""


def no_offers(_text: str, _cursor: int) -> Sequence[Offer]:
    return ()


class Composer(TextArea):
    @dataclass
    class Sent(Message):
        """`queued`: behind the running turn rather than into it."""

        text: str
        queued: bool

    class Stop(Message):
        """Esc."""

    class NextMode(Message):
        """Shift+Tab."""

    def __init__(self, history: Sequence[str] = (), remember: Callable[[str], None] = ignore) -> None:
        super().__init__(
            "",
            soft_wrap=True,
            compact=True,
            highlight_cursor_line=False,
            placeholder=Content("What shall we build?"),
            max_checkpoints=50,
        )
        self.cursor_blink = False  # an idle screen writes nothing: blinking costs 3 % of a core all day
        self.menu = Completion()
        self.complete: Callable[[str, int], Sequence[Offer]] = no_offers  # text, characters before the cursor
        self.take_back: Callable[[], str] = nothing_waits  # what was sent and not read yet; it is then no longer sent
        self._past = list(history)
        self._remember = remember
        self._at: int | None = None
        self._draft = ""
        self._pasted: dict[str, str] = {}
        self.last_key = 0.0

    # ---- text
    def whole(self) -> str:
        """What is written, with every paste in its place."""
        return _TOKEN.sub(lambda m: self._pasted.get(m.group(), m.group()), self.text)

    def put(self, text: str) -> None:
        """Replace what is written."""
        self.clear()
        self.insert(self._shortened(text))

    def write(self, text: str) -> None:
        """Replace what is written by a text that is there to be changed: whole, however long."""
        self.clear()
        self.insert(clean(text))

    def offer(self) -> None:
        """What may be meant by what is written. What is recalled is walked through with the same keys as a menu: none
        is shown over it."""
        row, column = self.cursor_location
        cursor = sum(len(line) + 1 for line in self.text.split("\n")[:row]) + column
        self.menu.offer(self.complete(self.text, cursor) if self._at is None else ())

    @on(TextArea.Changed)
    def _changed(self) -> None:
        shell = self.text.startswith(SHELL)
        self.set_class(shell, "-shell")
        self.border_title = "shell" if shell else None
        self.offer()

    def _accept(self, offer: Offer) -> None:
        end = "" if offer.final or offer.more or self.text[offer.end : offer.end + 1] == " " else " "
        result = self.replace(offer.text + end, self._place(offer.start), self._place(offer.end))
        self.move_cursor(result.end_location)
        self.offer()

    def take(self) -> str:
        text = self.whole()
        self.clear()
        self._pasted.clear()
        self._at = None
        return text

    def _shortened(self, text: str) -> str:
        lines = text.removesuffix("\n").count("\n") + 1
        if lines <= PASTE_LINES and len(text) <= PASTE_CHARACTERS and clean(text) == text:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        token = f"[Pasted {size} #{len(self._pasted) + 1}]"
        self._pasted[token] = text
        return token

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.paste(event.text)

    def paste(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.last_key = time.monotonic()
        if text and (result := self._replace_via_keyboard(self._shortened(text), *self.selection)):
            self.move_cursor(result.end_location)

    def _place(self, index: int) -> tuple[int, int]:
        before = self.text[:index]
        return before.count("\n"), index - before.rfind("\n") - 1

    # ---- keys
    async def _on_key(self, event: events.Key) -> None:
        self.last_key = time.monotonic()
        if self._own_key(event.key):
            event.stop()
            event.prevent_default()
            return
        if action := _EDITING.get(event.key):
            event.stop()
            event.prevent_default()
            await self.run_action(action)
            return
        await super()._on_key(event)

    def stray(self, key: str, character: str | None) -> None:
        """A key that somebody else got while this was meant."""
        self.last_key = time.monotonic()
        if key == "backspace":
            self.action_delete_left()
        elif key == "enter":
            self._send(queued=False)
        elif character and character.isprintable():
            self.insert(character)

    def _own_key(self, key: str) -> bool:
        if self.menu.chosen:
            self.offer()  # keys may come faster than word of what they changed: never complete what was written before
        if (offer := self.menu.chosen) and self._menu_key(key, offer):
            return True
        match key:
            case "enter" | "alt+enter":
                self._send(queued=key == "alt+enter")
            case "shift+enter" | "ctrl+j":
                self.insert("\n")
            case "escape":
                self.post_message(self.Stop())
            case "shift+tab":
                self.post_message(self.NextMode())
            case "tab":
                pass
            case "up" if not self.text and (unread := self.take_back()):
                self.put(unread)
            case "up" if self.cursor_at_first_line:
                return self._recall(-1)
            case "down" if self.cursor_at_last_line:
                return self._recall(+1)
            case _:
                return False
        return True

    def _menu_key(self, key: str, offer: Offer) -> bool:
        match key:
            case "up" | "down":
                self.menu.move(-1 if key == "up" else 1)
            case "tab":
                self._accept(offer)
            case "enter" if self.text[offer.start : offer.end] != offer.text:
                self._accept(offer)
                if offer.final:
                    self._send(queued=False)
            case "escape":
                self.menu.offer(())
            case _:
                return False
        return True

    def _send(self, queued: bool) -> None:
        if not self.text.strip():
            return
        text = self.take()
        self._past.append(text)
        self._remember(text)
        self.post_message(self.Sent(text, queued))

    def _recall(self, step: int) -> bool:
        if self._at is None:
            if step > 0 or not self._past:
                return False
            self._draft, self._at = self.whole(), len(self._past)
        at = self._at + step
        if at < 0:
            return True
        if at >= len(self._past):
            self.put(self._draft)
            self._at = None
            return True
        self._at = at
        self.put(self._past[at])
        return True
