"""Textual's terminal driver with an input that nothing can break: bytes that are not UTF-8 are dropped, old mouse
reports and half sequences too, and a paste of megabytes goes past the key parser. Knows nothing of the app."""

from __future__ import annotations

import os
import re
import select
from codecs import getincrementaldecoder
from dataclasses import dataclass

from textual import events
from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"
PASTE_PATIENCE = 20  # ticks of 0.1 s without a byte before an unfinished paste is taken as it is
READ = 65536
# Old mouse reports; and whether the window has the focus: it changes nothing here, and costs a new style of everything.
_DROPPED = re.compile(rb"\x1b\[(?:M[\x20-\xff]{3}|[IO])", re.DOTALL)
# Alt+Enter as most terminals send it, and keys with modifiers as xterm and tmux do: in the one form the parser knows
_ALT_ENTER = re.compile(rb"(?<!\x1b)\x1b[\r\n]")
_MODIFIED = re.compile(rb"\x1b\[27;(\d+);(\d+)~")
_UNFINISHED = re.compile(rb"\x1b\[(?:M[\x20-\xff]{0,2}|[0-9;?<]*)\Z|\x1b\[2?0?0?~?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pasted:
    text: str


class Sieve:
    """Bytes from the terminal in, text for the key parser and pastes out."""

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")("ignore").decode
        self._held = b""
        self._paste: bytearray | None = None
        self._ticks = 0

    def feed(self, data: bytes) -> list[str | Pasted]:
        self._ticks = 0
        out: list[str | Pasted] = []
        data, self._held = self._held + data, b""
        while data:
            if self._paste is not None:
                data = self._in_paste(data, out)
                continue
            before, begin, after = data.partition(PASTE_BEGIN)
            before = _ALT_ENTER.sub(b"\x1b[13;3u", _MODIFIED.sub(b"\x1b[\\2;\\1u", _DROPPED.sub(b"", before)))
            if begin:
                self._paste = bytearray()
            elif unfinished := _UNFINISHED.search(before):
                before, self._held = before[: unfinished.start()], unfinished.group()
            if text := self._decode(before):
                out.append(text)
            data = after
        return out

    def idle(self) -> list[str | Pasted]:
        """A tenth of a second without a byte: what is still half a sequence never becomes one."""
        self._held = b""
        self._ticks += 1
        if self._paste is not None and self._ticks >= PASTE_PATIENCE:
            out: list[str | Pasted] = [Pasted(self._paste.decode("utf-8", "replace"))]
            self._paste = None
            return out
        return []

    def _in_paste(self, data: bytes, out: list[str | Pasted]) -> bytes:
        assert self._paste is not None
        start = max(0, len(self._paste) - len(PASTE_END))
        self._paste += data
        end = self._paste.find(PASTE_END, start)
        if end < 0:
            return b""
        out.append(Pasted(self._paste[:end].decode("utf-8", "replace")))
        rest = bytes(self._paste[end + len(PASTE_END) :])
        self._paste = None
        return rest


class TolerantDriver(LinuxDriver):
    def run_input_thread(self) -> None:
        parser, sieve = XTermParser(self._debug), Sieve()
        poll = select.poll()
        poll.register(self.fileno, select.POLLIN)
        try:
            while not self.exit_event.is_set():
                ready = poll.poll(100)
                data = os.read(self.fileno, READ) if ready and ready[0][1] & select.POLLIN else b""
                if ready and not data:  # the terminal is gone; a signal says so too
                    self.exit_event.wait(0.1)
                for piece in sieve.feed(data) if data else sieve.idle():
                    if isinstance(piece, Pasted):
                        self.process_message(events.Paste(piece.text.replace("\x00", "")))
                    else:
                        for message in parser.feed(piece):
                            self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)
        except (OSError, EOFError, ParseError):
            return
