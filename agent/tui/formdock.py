"""The dock for forms: what an MCP server wants to know, and whether one may start. Shows one at a time and hands back
what was chosen and written. One without fields leaves letters and digits to the composer: a key that was meant for that
never decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from agent.forms import FormAsked, FormField
from agent.tui import theme
from agent.tui.approval import TYPING, Approval
from agent.tui.cells.paper import BLANK, clean, framed, prose, verbatim
from agent.tui.form import Filling, Value
from agent.tui.question import Question


class FormDock(ScrollView, can_focus=True):
    """`fill` gets the id, what was chosen, and what was written by field."""

    def __init__(self, fill: Callable[[str, str, Mapping[str, Value]], object]) -> None:
        super().__init__()
        self._fill = fill
        self.asked: FormAsked | None = None
        self._form: Filling | None = None
        self._choice = 0
        self._tried = False
        self._typing_until = 0.0
        self._left = False  # the keys are the composer's now, those too that came before it had the focus
        self._rows: list[Strip] = []
        self._foot: list[Strip] = []  # the choices stay in sight whatever is scrolled above them

    @property
    def plain(self) -> bool:
        """It asks only for a choice, and so can wait beside what is being written."""
        return self.asked is not None and self._form is None

    def show(self, waiting: Sequence[FormAsked], last_key: float, written: bool = False) -> bool:
        """The first of them, or nothing; true when none is shown any more. `last_key`: monotonic seconds of the user's
        last key in the composer. `written`: something stands there."""
        asked, had = waiting[0] if waiting else None, self.asked is not None
        if asked is self.asked:
            return False
        self.asked, self._tried, self._left = asked, False, False
        self._choice = asked.form.default if asked else 0
        now = time.monotonic()
        self._typing_until = now + TYPING if asked and now - last_key < 1.0 else 0.0
        self.display = asked is not None
        if asked:
            self._form = Filling(asked.form.fields) if asked.form.fields else None
            self.border_title = clean(asked.form.title)
            self._lay_out()
            self.scroll_to(y=0, animate=False, immediate=True)
            if not (written and self.plain):
                self.focus()
        return had and asked is None

    # ---- what it looks like
    def _lay_out(self) -> None:
        assert self.asked is not None
        width = max(10, self.size.width or self.screen.size.width - 4) - 2
        text = clean(self.asked.form.text)
        lines = [row for part in text.split("\n") for row in (prose(part, width, theme.ink) if part.strip() else [])]
        rows, here = framed(lines, Segment(""), Segment("")), 0
        if self._form is not None:
            rows.append(BLANK)
            for n in range(len(self._form.fields)):
                here = len(rows) if n == self._form.at else here
                rows += self._field(self._form, n, width)
        self._rows = [*rows, BLANK]
        self._foot = self._choices(width)
        most = max(len(self._foot) + 2, self.screen.size.height // 2 - 2)
        whole = len(self._rows) + len(self._foot)
        self.styles.height = min(whole, most) + 2
        self.virtual_size = Size(width, whole)
        if self._form is not None:
            self.scroll_to(y=max(0, here - (most - 4)), animate=False, immediate=True)
        self.refresh()

    def _field(self, form: Filling, n: int, width: int) -> list[Strip]:
        field, here = form.fields[n], n == form.at
        fault = form.faults().get(n, "") if self._tried or here else ""
        head = [
            Segment("▸ " if here else "  ", theme.accent),
            Segment(clean(field.title) + ("*" if field.required else "") + "  ", theme.bold if here else theme.ink),
            *_value_segments(form, n, here),
        ]
        if fault and (self._tried or form.texts[n]):
            head.append(Segment(f"  {fault}", theme.warn))
        strips = [Strip(head)]
        if here and field.about.strip():
            strips += framed(
                verbatim(clean(field.about), width - 4, theme.faint, 4)[0], Segment("    "), Segment("    ")
            )
        return strips

    def on_resize(self) -> None:
        if self.asked:
            self._lay_out()

    def render_line(self, y: int) -> Strip:
        """The last lines are the choices."""
        width, base = self.scrollable_content_region.width, self.rich_style
        row, from_end = y + self.scroll_offset.y, self.scrollable_content_region.height - 1 - y
        if from_end < len(self._foot):
            strip = self._foot[-1 - from_end]
        else:
            strip = self._rows[row] if row < len(self._rows) else BLANK
        return strip.adjust_cell_length(width, base).apply_style(base)

    def _choices(self, width: int) -> list[Strip]:
        """In one line, or in one each where that is too narrow."""
        assert self.asked is not None
        marks: list[Segment] = []
        for n, (_, words) in enumerate(self.asked.form.choices):
            meta = {"@click": f"choose({n})"}
            style = theme.chosen if n == self._choice else theme.ink
            mark = f"[{words}]" if n == self._choice else f" {words} "
            marks.append(Segment(mark, style + style.from_meta(meta)))
        room = width - sum(cell_len(m.text) for m in marks) - 3 * (len(marks) - 1)
        if room < 0:
            return [Strip([mark]) for mark in marks]
        segments = [s for mark in marks for s in (Segment(" · ", theme.faint), mark)][1:]
        hint = "   ← → and Enter, or just go on typing" if self.plain else "   Tab next field, Ctrl+N next choice"
        if len(hint) <= room:
            return [Strip([*segments, Segment(hint, theme.faint)])]
        return [Strip(segments), *([Strip([Segment(hint[2:], theme.faint)])] if self.plain else [])]

    # ---- what it does
    def action_choose(self, choice: int) -> None:
        if self.asked is None:
            return
        value = self.asked.form.choices[choice][0]
        content: Mapping[str, Value] = {}
        if self._form is not None and choice == 0:
            self._tried = True
            if faults := self._form.faults():
                self._form.at = min(faults)
                self._lay_out()
                return
            content = self._form.values()
        self._fill(self.asked.request_id, value, content)

    def on_paste(self, event: events.Paste) -> None:
        if self._form is not None:
            event.stop()
            self._form.write(" ".join(line.strip() for line in event.text.splitlines() if line.strip()))
            self._lay_out()

    def on_focus(self) -> None:
        self._left = False

    def on_key(self, event: events.Key) -> None:
        if self.asked is None:
            return
        if self._left:
            event.stop()
            self._stray(event)
            return
        now = time.monotonic()
        if now < self._typing_until and event.key != "escape":
            self._typing_until = now + TYPING
            event.stop()
            if event.is_printable or event.key == "backspace":
                self._stray(event)
            return
        if self._act(event):
            event.stop()
            event.prevent_default()
            self._lay_out()
        elif event.is_printable:
            event.stop()
            self._stray(event)

    def _stray(self, event: events.Key) -> None:
        kind, self._left = (Question.Stray, True) if self.plain else (Approval.Stray, False)
        self.post_message(kind(event.key, event.character))

    def _act(self, event: events.Key) -> bool:
        assert self.asked is not None
        choices = self.asked.form.choices
        if self._form is not None and self._edit(self._form, event):
            return True
        match event.key:
            case "enter":
                self.action_choose(self._choice)
            case "left" | "shift+tab":
                self._choice = (self._choice - 1) % len(choices)
            case "right" | "tab" | "ctrl+n":
                self._choice = (self._choice + 1) % len(choices)
            case "escape":
                self.action_choose(len(choices) - 1)
            case "up" | "down" if self._form is None:
                self.scroll_relative(y=1 if event.key == "down" else -1, animate=False)
            case _:
                return False
        return True

    def _edit(self, form: Filling, event: events.Key) -> bool:
        """Keys of the fields. Enter goes on to the next one, and from the last one sends."""
        match event.key:
            case "tab" | "down":
                form.move(1)
            case "shift+tab" | "up":
                form.move(-1)
            case "enter" if self._choice == 0 and form.at < len(form.fields) - 1:
                form.move(1)
            case "backspace":
                form.erase()
            case "left" | "right":
                form.turn(1 if event.key == "right" else -1)
            case "space":
                form.toggle()
            case _ if event.is_printable and event.character:
                form.write(event.character)
            case _:
                return False
        return True


def _value_segments(form: Filling, n: int, here: bool) -> list[Segment]:
    field, text = form.fields[n], clean(form.texts[n])
    if field.kind == "boolean":
        return [Segment(text or "yes or no", theme.accent if text else theme.faint)]
    if field.kind == "choice":
        words = next((w for v, w in field.options if v == form.texts[n]), "")
        return [Segment(f"‹ {clean(words) or 'choose with → and ←'} ›", theme.accent if words else theme.faint)]
    if field.kind == "choices":
        return _several(form, n, here)
    return [Segment(text, theme.accent), *([Segment("▏", theme.accent)] if here else [])]


def _several(form: Filling, n: int, here: bool) -> list[Segment]:
    field: FormField = form.fields[n]
    segments: list[Segment] = []
    for place, (value, words) in enumerate(field.options):
        mark = "■" if value in form.taken[n] else "□"
        style = theme.chosen if here and place == form.option[n] else theme.ink
        segments += [Segment(f"{mark} {clean(words)}", style), Segment("  ")]
    return segments
