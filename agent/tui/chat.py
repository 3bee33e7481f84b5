"""The one screen: transcript, approval dock, composer, status line. Keeps no conversation of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from agent.core.permissions import MODES
from agent.core.session import Session
from agent.events import Event, PermissionAsked, PermissionSettled, TurnEnded
from agent.tui.approval import Approval
from agent.tui.composer import Composer
from agent.tui.picture import Picture
from agent.tui.pump import pump
from agent.tui.status import Status
from agent.tui.transcript import Transcript

QUIT_TWICE = 2.0  # seconds within which the second Ctrl+C quits
HELP = """Enter send, while it works: steer · Alt+Enter queue · Shift+Enter or Ctrl+J new line · Esc stop
Ctrl+O unfold · Shift+Tab permission mode · Up/Down earlier messages · PageUp/PageDown scroll · Ctrl+C twice quit
Commands: /help, /quit"""


class Chat(Screen[None]):
    @dataclass
    class Leave(Message):
        code: int

    @dataclass
    class Copied(Message):
        text: str

    BINDINGS: ClassVar = [
        Binding("escape", "stop", "Stop", priority=True),
        Binding("ctrl+c", "interrupt", "Clear or quit", priority=True),
        Binding("shift+tab", "mode", "Mode", priority=True),
        Binding("ctrl+o", "unfold", "Unfold", priority=True),
        Binding("pageup", "page(-1)", "Up", priority=True),
        Binding("pagedown", "page(1)", "Down", priority=True),
    ]

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        label: str,
        mode: str,
        first_prompt: str,
        notes: Sequence[str],
        read_branch: Callable[[], str] | None,
    ) -> None:
        super().__init__()
        self._open_session = open_session
        self._first_prompt = first_prompt
        self._read_branch = read_branch
        self._session: Session | None = None
        self._early: list[str] = []
        self._quit_asked = 0.0
        self.picture = Picture()
        self.status = Status(label, mode)
        for note in notes:
            self.picture.note("info", note)

    def compose(self) -> ComposeResult:
        yield Transcript(self.picture)
        yield Approval()
        yield Composer()
        yield Static("", id="status", markup=False)

    # ---- life
    def on_mount(self) -> None:
        self.query_one(Composer).focus()
        self.set_interval(1.0, self._tick)
        self._draw()
        # after the first paint: reading sessions and building tools takes time the eye would notice
        self.call_after_refresh(self._connect)

    def _connect(self) -> None:
        session = self._session = self._open_session()
        self.status.mode = session.mode
        self._follow(session)
        self._refresh_branch()
        for text in [*([self._first_prompt] if self._first_prompt else []), *self._early]:
            session.submit(text)

    @work(exclusive=True, group="pump")
    async def _follow(self, session: Session) -> None:
        await pump(session.subscribe(), self._fold, self._draw)

    async def close_session(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _fold(self, event: Event) -> None:
        self.picture.apply(event)
        self.status.apply(event, time.monotonic())
        match event:
            case PermissionAsked():
                self.query_one(Approval).ask(event)
            case PermissionSettled(call_id=call_id):
                self._settled(call_id)
            case TurnEnded():
                self.query_one(Approval).clear()
                self.query_one(Composer).focus()
                self._refresh_branch()
            case _:
                pass

    def _settled(self, call_id: str) -> None:
        dock = self.query_one(Approval)
        dock.settle(call_id)
        if not dock.asking:
            self.query_one(Composer).focus()

    def _draw(self) -> None:
        self.query_one(Transcript).show()
        self._draw_status()

    def _draw_status(self) -> None:
        line = self.query_one("#status", Static)
        line.update(self.status.line(max(1, self.size.width - 2), time.monotonic()))

    def _tick(self) -> None:
        if self.status.busy:
            self._draw_status()

    def on_resize(self) -> None:
        self.set_class(self.size.width < 20 or self.size.height < 5, "tiny")
        if self.is_mounted:
            self._draw_status()

    @work(exclusive=True, group="branch")
    async def _refresh_branch(self) -> None:
        if self._read_branch is not None:
            self.status.branch = await asyncio.to_thread(self._read_branch)
            self._draw_status()

    # ---- what the user does
    def on_composer_sent(self, message: Composer.Sent) -> None:
        text = message.text
        word = text.strip().split(maxsplit=1)[0]
        if word in ("/quit", "/exit"):
            self.post_message(self.Leave(0))
        elif word.startswith("/") and "/" not in word[1:] and word[1:].isalpha():
            known = word == "/help"
            self.picture.note("info" if known else "warning", HELP if known else f"There is no command {word}.\n{HELP}")
            if not known:
                self.query_one(Composer).put_back(text)
            self._draw()
        elif self._session is None:
            self._early.append(text)
        elif message.how == "steer":
            self._session.steer(text)
        else:
            self._session.submit(text)

    def on_approval_decided(self, message: Approval.Decided) -> None:
        if self._session is not None:
            self._session.answer(message.request_id, message.decision)

    async def action_stop(self) -> None:
        if self._session is not None and self._session.running:
            self._stop(self._session)

    @work(group="stop")
    async def _stop(self, session: Session) -> None:
        unsent = await session.cancel()
        if unsent:
            self.query_one(Composer).put_back("\n\n".join(unsent))

    async def action_interrupt(self) -> None:
        composer = self.query_one(Composer)
        if selected := self.get_selected_text():
            self.post_message(self.Copied(selected))
            self.clear_selection()
        elif self._session is not None and self._session.running:
            self._stop(self._session)
        elif composer.text:
            composer.take()
        elif time.monotonic() - self._quit_asked < QUIT_TWICE:
            self.post_message(self.Leave(130))
        else:
            self._quit_asked = time.monotonic()
            self.picture.note("info", "Press Ctrl+C again to quit.")
            self._draw()

    def action_mode(self) -> None:
        if self._session is not None:
            at = MODES.index(self._session.mode)
            self._session.set_mode(MODES[(at + 1) % len(MODES)])

    def action_unfold(self) -> None:
        self.query_one(Transcript).toggle_unfolded()

    def action_page(self, direction: int) -> None:
        transcript = self.query_one(Transcript)
        transcript.scroll_relative(y=direction * max(1, transcript.size.height - 2), animate=False)
