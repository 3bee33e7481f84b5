"""The Textual application: start, end, signals and crashes. Whatever ends it, the terminal is given back as it was and
the exit status tells why. Knows nothing of conversations; those are the chat's."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver

from agent.commands.base import Registry
from agent.core.permissions import Mode
from agent.core.session import Session
from agent.protocols import Setup
from agent.survey import Ready
from agent.tui.cells.welcome import welcome_strips
from agent.tui.chat import Chat
from agent.tui.composer import Composer, ignore
from agent.tui.driver import TolerantDriver
from agent.tui.screens.setup import SetupScreen
from agent.tui.theme import DFLASH_THEME

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
LAST_RESORT = 5.0  # seconds after a signal until the process ends even with a terminal that no longer answers


class DflashApp(App[int], inherit_bindings=False):
    """`open_session` is called once the first frame is on the screen, in the running loop. `read_branch` may block: it
    runs in a thread. `edit` shows a text in the user's editor. `remember` gets each text that was sent. `setup`: it
    comes first, for there is no model server yet. Ends with 0, 130 (Ctrl+C twice) or 128 + signal."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "leave", show=False)]

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        reopen: Callable[[str | None], Session] | None = None,
        profile_label: str,
        folder: Path,
        title: str = "dflash-agent",
        mode: Mode = "ask",
        history: Sequence[str] = (),
        remember: Callable[[str], None] = ignore,
        read_branch: Callable[[], str] | None = None,
        edit: Callable[[str], str] | None = None,
        first_prompt: str = "",
        commands: Registry | None = None,
        start_notes: Sequence[str] = (),
        setup: Setup | None = None,
        crash_log: Path | None = None,
    ) -> None:
        super().__init__()
        self.title = title
        self._crash_log = crash_log
        self._session_closed = False
        self._reopen = reopen
        self._history = list(history)
        self._commands = commands or Registry()
        welcome = welcome_strips(title, str(folder))

        def chat(open_session: Callable[[], Session], first_prompt: str, notes: Sequence[str]) -> Chat:
            return Chat(
                open_session,
                label=profile_label,
                welcome=welcome,
                composer=Composer(self._history, self._remember),
                read_branch=read_branch,
                first_prompt=first_prompt,
                commands=self._commands,
                notes=notes,
                fail=self.crash,
                leave=self.leave,
                switch=self._switch,
                edit=edit,
            )

        self._new_chat = chat
        self._keep = remember
        self._setup = SetupScreen(setup, self.leave, self.crash) if setup else None
        self.chat = chat(open_session, first_prompt, start_notes)
        self.chat.gauge.mode = mode

    def _begin(self, ready: Ready | None) -> None:
        """The first run is over: the conversation begins, with what the engine showed of itself."""
        assert ready is not None
        self._setup = None
        for note in (str(ready), ready.note):
            if note:
                self.chat.picture.note(note)
        self.push_screen(self.chat)

    def _remember(self, text: str) -> None:
        self._history.append(text)
        self._keep(text)

    async def _switch(self, session_id: str | None) -> None:
        """Another session on a screen of its own. Raises AgentError when it cannot be opened; the running one then
        stays."""
        if self._reopen is None:
            return
        session, old = self._reopen(session_id), self.chat
        if old.session is not None:
            await old.session.close()
        self.chat = self._new_chat(lambda: session, "", ())
        self.chat.gauge.branch = old.gauge.branch
        await self.switch_screen(self.chat)  # pyright: ignore[reportUnknownMemberType] - the screen's result type

    # ---- start and end
    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return TolerantDriver if driver.__name__ == "LinuxDriver" else driver

    def on_mount(self) -> None:
        self.register_theme(DFLASH_THEME)
        self.theme = DFLASH_THEME.name
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            for number in SIGNALS:
                loop.add_signal_handler(number, self._signalled, number)
            loop.add_signal_handler(signal.SIGINT, lambda: (self._setup or self.chat).action_interrupt())
        loop.set_exception_handler(self._loop_failed)
        if self._setup is None:
            self.push_screen(self.chat)
        else:
            self.push_screen(self._setup, self._begin)
        self.call_after_refresh(gc.freeze)

    async def run_async(self, **options: Any) -> int | None:
        try:
            await super().run_async(**options)
        finally:
            await self.close_session()
        return self.return_code or 0

    def run(self, **options: Any) -> int:
        super().run(**options)
        return self.return_code or 0

    async def close_session(self) -> None:
        """May be called more than once."""
        if not self._session_closed and self.chat.session is not None:
            self._session_closed = True
            await self.chat.session.close()

    def leave(self, code: int) -> None:
        self.exit(code, return_code=code)

    def action_leave(self) -> None:
        self.leave(0)

    def _signalled(self, number: signal.Signals) -> None:
        code = 128 + number
        guard = threading.Timer(LAST_RESORT, os._exit, (code,))
        guard.daemon = True
        guard.start()
        self.leave(code)

    # ---- crashes
    def crash(self, error: Exception) -> None:
        """A bug: the traceback goes to the log, one sentence to the terminal."""
        self._handle_exception(error)

    def _handle_exception(self, error: Exception) -> None:
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()  # pyright: ignore[reportUnknownMemberType]
            self._write_log(error)
        cause = getattr(error, "error", error)
        words = f"dflash-agent stopped: {type(cause).__name__}: {cause}".split("\n")[0][:300]
        where = f"\nDetails: {self._crash_log}" if self._crash_log else ""
        self.panic(Text(words + where))

    def _print_error_renderables(self) -> None:
        del self._exit_renderables[1:]
        super()._print_error_renderables()

    def _write_log(self, error: BaseException) -> None:
        if self._crash_log is None:
            return
        with contextlib.suppress(OSError):
            self._crash_log.parent.mkdir(parents=True, exist_ok=True)
            with self._crash_log.open("a", encoding="utf-8", errors="replace") as log:
                log.write("".join(traceback.format_exception(error)))

    def _loop_failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a forgotten task says goes to the log, not over the screen."""
        error = context.get("exception")
        if isinstance(error, BaseException):
            self._write_log(error)
