"""The dock that asks before something happens. Shows one question at a time; hands back a decision; a key that was
meant for the composer never decides."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TypeAlias

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from agent.events import Decision, PermissionAsked
from agent.tui import theme
from agent.tui.cells.entries import diff_rows
from agent.tui.cells.paper import BLANK, clean, framed, prose, verbatim

Choice: TypeAlias = tuple[str, str, Decision]  # its key, its words, what it decides
SHORT = {"this session": "session", "always in this project": "always"}  # where there is little room
TYPING = 0.3  # seconds since the last key within which the next one still belongs to the composer
LEFT = "send or clear your text to choose"
PREVIEW_MOST = 400  # lines of a diff laid out; the rest is counted


class Approval(ScrollView, can_focus=True):
    @dataclass
    class Answered(Message):
        request_id: str
        decision: Decision

    class Stop(Message):
        """Esc: no, and stop the turn."""

    @dataclass
    class Stray(Message):
        """A key that belongs to the composer, and with it all that follow until nothing is written there."""

        key: str
        character: str | None

    def __init__(self) -> None:
        super().__init__()
        self.asked: PermissionAsked | None = None
        self.choices: tuple[Choice, ...] = ()
        self._choice = 0
        self._typing_until = 0.0
        self._left = False  # the keys are the composer's now, those too that came before it had the focus
        self._rows: list[Strip] = []
        self._foot: list[Strip] = []  # stays in sight whatever is scrolled above it

    def ask(self, asked: PermissionAsked | None, last_key: float) -> None:
        """`last_key`: monotonic seconds of the user's last key in the composer."""
        if asked is self.asked:
            return
        self.asked, self._choice, self._left, self.border_subtitle = asked, 0, False, None
        now = time.monotonic()
        self._typing_until = now + TYPING if asked and now - last_key < 1.0 else 0.0
        self.display = asked is not None
        if asked:
            self.choices = choices_of(asked)
            self._lay_out()
            self.scroll_to(y=0, animate=False, immediate=True)
            self.focus()

    def _lay_out(self) -> None:
        assert self.asked is not None
        plan, width = self.asked.plan, max(10, self.size.width or self.screen.size.width - 4) - 2
        title = clean(plan.title) or clean(plan.tool)
        rows = framed(prose(title, width, theme.bold), Segment(""), Segment(""))
        if plan.command is not None and plan.command.strip() not in plan.title:
            rows += framed(
                verbatim(clean(plan.command), width - 2, theme.ink)[0], Segment("$ ", theme.accent), Segment("  ")
            )
        if plan.preview.strip() and plan.preview.strip() != (plan.command or "").strip():
            lines = plan.preview.strip("\n").split("\n")
            rows.append(BLANK)
            rows += framed(diff_rows("\n".join(lines[:PREVIEW_MOST]), width), Segment(""), Segment(""))
            if len(lines) > PREVIEW_MOST:
                rows.append(Strip([Segment(f"{len(lines) - PREVIEW_MOST} more lines", theme.faint)]))
        self._rows, self._foot = [*rows, BLANK], _reasons(self.asked, width)
        most = max(3, self.screen.size.height // 2 - 2)
        whole = len(self._rows) + len(self._foot) + 1
        self.styles.height = min(whole, max(most, len(self._foot) + 3)) + 2
        self.virtual_size = Size(width, whole)
        self.refresh()

    def on_resize(self) -> None:
        if self.asked:
            self._lay_out()

    def render_line(self, y: int) -> Strip:
        """The last lines are the rules and the choices."""
        width, base = self.scrollable_content_region.width, self.rich_style
        row, from_end = y + self.scroll_offset.y, self.scrollable_content_region.height - 1 - y
        if from_end == 0:
            strip = self._choices(width)
        elif from_end <= len(self._foot):
            strip = self._foot[len(self._foot) - from_end]
        else:
            strip = self._rows[row] if row < len(self._rows) else BLANK
        return strip.adjust_cell_length(width, base).apply_style(base)

    def _choices(self, width: int) -> Strip:
        segments: list[Segment] = []
        short = sum(len(words) + 7 for _, words, _ in self.choices) - 3 > width
        for n, (key, words, _) in enumerate(self.choices):
            meta = {"@click": f"choose({n})"}
            style = theme.chosen if n == self._choice else theme.ink
            if n and not short:
                segments.append(Segment(" · ", theme.faint))
            words = SHORT.get(words, words) if short else words
            mark = f"[{key} {words}]" if n == self._choice else f"{key} {words} " if short else f" {key} {words} "
            segments.append(Segment(mark, style + style.from_meta(meta)))
        if width > 80:
            segments.append(Segment("   Esc stops the turn", theme.faint))
        return Strip(segments)

    def action_choose(self, choice: int) -> None:
        self._answer(self.choices[choice][2])

    def _answer(self, decision: Decision) -> None:
        if self.asked:
            self.post_message(self.Answered(self.asked.request_id, decision))

    def on_focus(self) -> None:
        self._left, self.border_subtitle = False, None

    def on_key(self, event: events.Key) -> None:
        now = time.monotonic()
        if self._left:
            event.stop()
            self.post_message(self.Stray(event.key, event.character))
            return
        if now < self._typing_until and event.key != "escape":
            self._typing_until = now + TYPING
            event.stop()
            if event.is_printable or event.key == "backspace":
                self._leave(event)
            return
        if self._act(event.key):
            event.stop()
        elif event.is_printable:
            event.stop()
            self._leave(event)

    def _leave(self, event: events.Key) -> None:
        """A letter of a sentence must not allow anything, nor the Enter at its end."""
        self._left, self.border_subtitle = True, LEFT
        self.post_message(self.Stray(event.key, event.character))

    def _act(self, key: str) -> bool:
        for shortcut, _, decision in self.choices:
            if key == shortcut:
                self._answer(decision)
                return True
        match key:
            case "enter":
                self._answer(self.choices[self._choice][2])
            case "left" | "shift+tab":
                self._choice = (self._choice - 1) % len(self.choices)
            case "right" | "tab":
                self._choice = (self._choice + 1) % len(self.choices)
            case "up":
                self.scroll_relative(y=-1, animate=False)
            case "down":
                self.scroll_relative(y=1, animate=False)
            case "escape":
                self.post_message(self.Stop())
            case _:
                return False
        self.refresh()
        return True


def choices_of(asked: PermissionAsked) -> tuple[Choice, ...]:
    """Without those that would change nothing."""
    session: tuple[Choice, ...] = (("s", "this session", "session"),) if asked.session else ()
    always: tuple[Choice, ...] = (("a", "always in this project", "always"),) if asked.always else ()
    return (("y", "once", "once"), *session, *always, ("n", "no", "denied"))


def _reasons(asked: PermissionAsked, width: int) -> list[Strip]:
    """Why it is asked, and the rules that two of the choices would make."""
    strips: list[Strip] = []
    if asked.why:
        strips += framed(prose(clean(asked.why), width - 2, theme.warn)[:3], Segment("! ", theme.warn), Segment("  "))
    made = [(key, rules) for key, rules in (("s", asked.session), ("a", asked.always)) if rules]
    if len(made) == 2 and made[0][1] == made[1][1]:
        made = [("s, a", made[0][1])]
    for key, rules in made:
        lead = f"{key} allow{'s' if len(key) == 1 else ''} "
        rows = prose(clean(", ".join(rules)), max(8, width - len(lead)), theme.ink)[:4]
        strips += framed(rows, Segment(lead, theme.quiet), Segment(" " * len(lead)))
    return [*strips, BLANK] if strips else []
