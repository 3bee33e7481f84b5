"""The dock for a choice: a question of the model's, what to do with a plan, whether to undo. Letters always go to the
composer, where any other answer is written; so a first letter never decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from agent.tui import theme
from agent.tui.cells.paper import BLANK, clean, framed, prose

DIGITS = "123456789"


@dataclass(frozen=True)
class Option:
    """`about` stands behind its words in a quiet colour."""

    words: str
    about: str = ""


@dataclass(frozen=True)
class Asked:
    """`chosen` gets the number of the option, `left` is called for Esc. `free`: another answer may be written."""

    key: str
    title: str
    text: str
    options: tuple[Option, ...]
    chosen: Callable[[int], None]
    left: Callable[[], None]
    free: str = ""


class Question(ScrollView, can_focus=True):
    @dataclass
    class Stray(Message):
        """A key that belongs to the composer."""

        key: str
        character: str | None

    def __init__(self) -> None:
        super().__init__()
        self.asked: Asked | None = None
        self._choice = 0
        self._rows: list[Strip] = []
        self._first: list[int] = []  # the row where each option begins
        self._left = False  # the keys are the composer's now, those too that came before it had the focus

    def ask(self, asked: Asked | None) -> None:
        if (asked.key if asked else None) == (self.asked.key if self.asked else None):
            return
        self.asked, self._choice, self._left = asked, 0, False
        self.display = asked is not None
        if asked:
            self.border_title = asked.title
            self._lay_out()
            self.scroll_to(y=0, animate=False, immediate=True)
            self.focus()

    def _lay_out(self) -> None:
        assert self.asked is not None
        width = max(10, (self.size.width or self.screen.size.width - 4) - 2)
        rows: list[Strip] = []
        if self.asked.text:
            rows += [*framed(prose(clean(self.asked.text), width, theme.bold), Segment(""), Segment("")), BLANK]
        self._first = []
        for n, option in enumerate(self.asked.options):
            self._first.append(len(rows))
            rows += self._option(n, option, width)
        hint = f"{self.asked.free} · Esc" if self.asked.free else "Enter chooses · Esc leaves"
        rows += [BLANK, *framed(prose(hint, width, theme.faint), Segment(""), Segment(""))]
        self._rows = rows
        self.styles.height = min(len(rows), max(4, self.screen.size.height // 2 - 2)) + 2
        self.virtual_size = Size(width, len(rows))
        self.refresh()

    def _option(self, n: int, option: Option, width: int) -> list[Strip]:
        here = n == self._choice
        mark = f"{'▸' if here else ' '} {DIGITS[n]} "
        style = (theme.accent_bold if here else theme.ink) + theme.ink.from_meta({"@click": f"choose({n})"})
        strips = framed(
            prose(clean(option.words), max(6, width - 4), style), Segment(mark, style), Segment("    ", style)
        )
        about = clean(option.about)
        if about and strips[-1].cell_length + cell_len(about) + 2 <= width:
            strips[-1] = Strip([*strips[-1], Segment(f"  {about}", theme.faint)])
        return strips

    def on_resize(self) -> None:
        if self.asked:
            self._lay_out()

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        strip = self._rows[row] if row < len(self._rows) else BLANK
        width = self.scrollable_content_region.width
        return strip.adjust_cell_length(width, self.rich_style).apply_style(self.rich_style)

    def action_choose(self, choice: int) -> None:
        if self.asked and choice < len(self.asked.options):
            self.asked.chosen(choice)

    def on_focus(self) -> None:
        self._left = False

    def on_key(self, event: events.Key) -> None:
        if self.asked is None:
            return
        if self._left:
            event.stop()
            self.post_message(self.Stray(event.key, event.character))
            return
        count = len(self.asked.options)
        match event.key:
            case "enter" if count:
                self.action_choose(self._choice)
            case "up" | "shift+tab" | "left" if count:
                self._move((self._choice - 1) % count)
            case "down" | "tab" | "right" if count:
                self._move((self._choice + 1) % count)
            case "escape":
                self.asked.left()
            case key if key in DIGITS[:count]:
                self.action_choose(DIGITS.index(key))
            case _ if event.is_printable or event.key == "backspace":
                self._left = True
                self.post_message(self.Stray(event.key, event.character))
            case _:
                return
        event.stop()

    def _move(self, choice: int) -> None:
        self._choice = choice
        self._lay_out()
        row = self._first[choice]
        if not self.scroll_offset.y <= row < self.scroll_offset.y + self.size.height:
            self.scroll_to(y=row, animate=False, immediate=True)


def options(words: Sequence[str]) -> tuple[Option, ...]:
    return tuple(Option(w) for w in words)
