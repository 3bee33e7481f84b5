"""The first run: shows what a machine has and what it could run, gets it ready, and hands over to the conversation.
Thin: what it looks like is in cells/setup, how far a start has come in steps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from agent.errors import AgentError, RuntimeFailure
from agent.events import ServerState
from agent.protocols import Setup
from agent.survey import Choice, Ready
from agent.tui.cells.paper import BLANK
from agent.tui.cells.setup import Mode, SetupView, keys_strip, setup_strips
from agent.tui.steps import Steps

TICK = 1.0  # seconds between drawings while something runs; each report of progress draws, too
ADDRESS = "http://127.0.0.1:8080"


class Sheet(ScrollView, can_focus=True):
    """The strips of a view, laid out anew whenever it has changed."""

    def __init__(self, view: SetupView) -> None:
        super().__init__()
        self._view = view
        self._rows: list[Strip] = []

    def show(self) -> None:
        width = self.size.width
        self._rows, focus = setup_strips(self._view, width, time.monotonic())
        self.virtual_size = Size(width, len(self._rows))
        height = self.size.height
        if not self.scroll_offset.y <= focus < self.scroll_offset.y + height - 1:
            self.scroll_to(y=max(0, focus - height // 2), animate=False, immediate=True)
        self.refresh()

    def on_resize(self) -> None:
        self.show()

    def render_line(self, y: int) -> Strip:
        row, base = y + self.scroll_offset.y, self.rich_style
        strip = self._rows[row] if row < len(self._rows) else BLANK
        return strip.adjust_cell_length(self.size.width, base).apply_style(base)


class Keys(Widget):
    def __init__(self, view: SetupView) -> None:
        super().__init__()
        self._view = view

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        return keys_strip(self._view.mode, width).adjust_cell_length(width, base).apply_style(base)


class SetupScreen(Screen[Ready]):
    """Ends with what is ready. `leave` ends the program with a status; `fail` hears of bugs."""

    CSS_PATH = "setup.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go", show=False),
        Binding("escape", "back", priority=True, show=False),
        Binding("ctrl+c", "interrupt", priority=True, show=False),
        Binding("up", "move(-1)", priority=True, show=False),
        Binding("down", "move(1)", priority=True, show=False),
        Binding("pageup", "page(-1)", priority=True, show=False),
        Binding("pagedown", "page(1)", priority=True, show=False),
    ]

    def __init__(self, setup: Setup, leave: Callable[[int], None], fail: Callable[[Exception], None]) -> None:
        super().__init__()
        self._setup, self._leave, self._fail = setup, leave, fail
        self.view = SetupView()
        self.sheet, self.keys = Sheet(self.view), Keys(self.view)
        self.address = Input(placeholder=ADDRESS, select_on_focus=False)
        self._work: asyncio.Task[None] | None = None
        self._ticking: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self.sheet
        yield self.address
        yield self.keys

    def on_mount(self) -> None:
        self._ticking = self.set_interval(TICK, self._show, pause=True)
        self._become("looking")
        self.sheet.focus()
        self._spawn(self._look())

    # ---- work
    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = asyncio.get_running_loop().create_task(work)
        self._work.add_done_callback(self._worked)

    def _worked(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled() and isinstance(error := work.exception(), Exception):
            self._fail(error)

    async def _look(self) -> None:
        self.view.survey = await self._setup.survey()
        self._choose(0)
        self._become("choosing")

    async def _get_ready(self, choice: Choice) -> None:
        view = self.view
        view.failure, view.words = "", ()
        self._become("working")
        try:
            ready = await self._setup.get_ready(choice, self._changed)
        except asyncio.CancelledError:
            view.steps.stopped()
            self._become("stopped")
        except AgentError as error:
            view.failure = str(error)
            view.words = error.last_words if isinstance(error, RuntimeFailure) else ()
            self._become("failed")
        else:
            self.dismiss(ready)

    def _changed(self, state: ServerState) -> None:
        self.view.steps.apply(state, time.monotonic())
        self._show()

    # ---- what the user does
    def action_move(self, step: int) -> None:
        if self.view.mode in ("choosing", "stopped", "failed"):
            self._choose((self.view.chosen + step) % self.view.count)
            self._become("choosing")

    def _choose(self, number: int) -> None:
        self.view.chosen = number
        self.view.failure, self.view.words = "", ()
        self.view.steps = Steps(self.view.offer)

    def action_go(self) -> None:
        view = self.view
        if view.mode == "address":
            self._to_server(self.address.value.strip() or ADDRESS)
        elif view.mode in ("choosing", "stopped", "failed"):
            if view.offer is None:
                self._become("address")
                self.address.focus()
            elif not view.offer.obstacle:
                self._spawn(self._get_ready(Choice(profile=view.offer.profile)))

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_go()

    def _to_server(self, address: str) -> None:
        self.sheet.focus()
        self._spawn(self._get_ready(Choice(server=address)))

    def action_back(self) -> None:
        match self.view.mode:
            case "working" if self._work is not None:
                self._become("stopping")
                self._work.cancel()
            case "stopping":
                pass
            case "address":
                self.sheet.focus()
                self._become("choosing")
            case _:
                self._leave(0)

    def action_interrupt(self) -> None:
        """Ctrl+C stops what goes on; where nothing does, it leaves."""
        if self.view.mode == "working":
            self.action_back()
        else:
            self._leave(130)

    def action_page(self, direction: int) -> None:
        self.sheet.scroll_relative(y=direction * max(1, self.sheet.size.height - 2), animate=False)

    # ---- drawing
    def _become(self, mode: Mode) -> None:
        self.view.mode = mode
        self.address.display = mode == "address"
        if self._ticking is not None:
            (self._ticking.resume if mode in ("working", "stopping") else self._ticking.pause)()
        self._show()

    def _show(self) -> None:
        if self.is_attached:
            self.sheet.show()
            self.keys.refresh()
