"""The Textual application: one screen, its looks, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text
from textual.app import App
from textual.driver import Driver

from agent.core.session import Session
from agent.tui.chat import Chat
from agent.tui.driver import TolerantDriver

log = logging.getLogger(__name__)
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class DflashApp(App[int]):
    """`open_session` is called once, after the first paint. `read_branch` runs in a thread. The session is closed
    before `run_async` returns; the exit code is `return_code`."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    PAUSE_GC_ON_SCROLL = True

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        profile_label: str,
        folder: Path,
        mode: str = "ask",
        first_prompt: str = "",
        start_notes: Sequence[str] = (),
        read_branch: Callable[[], str] | None = None,
        crash_log: Path | None = None,
    ) -> None:
        super().__init__()
        self.title = f"dflash-agent {folder.name}"
        self._crash_log = crash_log
        self._chat = Chat(
            open_session,
            label=profile_label,
            mode=mode,
            first_prompt=first_prompt,
            notes=start_notes,
            read_branch=read_branch,
        )

    def get_driver_class(self) -> type[Driver]:
        chosen = super().get_driver_class()
        return TolerantDriver if chosen.__name__ == "LinuxDriver" else chosen

    def get_default_screen(self) -> Chat:
        return self._chat

    def on_mount(self) -> None:
        if not self.is_headless:
            for number in ENDING_SIGNALS:
                asyncio.get_running_loop().add_signal_handler(number, self._end, 128 + number)
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        gc.freeze()  # what is there now stays; the collector need not look at it again

    def _end(self, code: int) -> None:
        self.exit(return_code=code)

    def _interrupt(self) -> None:
        self.call_later(self._chat.action_interrupt)

    async def on_unmount(self) -> None:
        await self._chat.close_session()

    def _fatal_error(self) -> None:
        """A bug: one sentence and the way to the log, never a page of internals."""
        log.error("the screen ended", exc_info=self._exception)
        where = f" Details: {self._crash_log}" if self._crash_log else ""
        error = self._exception
        text = f"dflash-agent stopped because of an error of its own ({type(error).__name__}: {error}).{where}"
        self._exit_renderables.append(Text(text))
        self._close_messages_no_wait()

    def on_chat_leave(self, message: Chat.Leave) -> None:
        self.exit(return_code=message.code)

    def on_chat_copied(self, message: Chat.Copied) -> None:
        self.copy_to_clipboard(message.text)
        self.notify("Copied", timeout=1.5)
