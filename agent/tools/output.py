"""What a command says: a window for the model, a live picture for the screen, and all of it where it can be read by
range. Takes bytes as they come and holds little of them in memory, however many they are."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from agent.tools.limits import Window
from agent.tools.lines import Lines

OUTPUT_LIMIT = 2_000_000_000  # bytes; more than this is a runaway
SAVED_LIMIT = 256_000_000  # bytes of it that are kept in a file: the disk is the user's
KEPT_LOGS = 1_000_000_000  # bytes of older logs
IN_MEMORY = 64_000  # bytes; less than this needs no file
PIECE = 16_000  # bytes of one reading by range
LIVE_EVERY = 0.1  # seconds
LIVE_PIECE = 2_000  # characters: the newest of what came since the last piece
LIVE_TOTAL = 1_000_000  # characters passed on while it runs


class Output:
    """`show` takes text that has come, `show_tail` what stands behind it and may still change. `heard`: monotonic
    seconds of the last byte."""

    def __init__(self, log: Path, show: Callable[[str], None], show_tail: Callable[[str], None]) -> None:
        self.log = log
        self.heard = time.monotonic()
        self.received = 0
        self._show: Callable[[str], None] | None = show
        self._show_tail = show_tail
        self._lines = Lines()
        self._window = Window()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._memory: bytearray | None = bytearray()  # None: it is in the file
        self._saved = 0
        self._broken = False
        self._live = 0
        self._pending = ""
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def add(self, data: bytes) -> bool:
        """False when it is too much."""
        self.received += len(data)
        self.heard = time.monotonic()
        self._keep(self._lines.feed(self._decoder.decode(data)))
        if self._show is not None and self._live < LIVE_TOTAL and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIVE_EVERY, self._flush)
        return self.received <= OUTPUT_LIMIT

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._keep(self._lines.feed(self._decoder.decode(b"", True)) + self._lines.end())
            self._lines = Lines()

    def hide(self) -> None:
        """The call is over: nothing more is shown."""
        self._flush()
        self._show = None

    # ---- reading
    @property
    def tail(self) -> str:
        """What may still change; its last line is not finished."""
        return self._lines.tail

    @property
    def size(self) -> int:
        """Bytes in all, as `since` counts them."""
        return self._saved + len(self._lines.tail.encode("utf-8", "replace"))

    @property
    def cut(self) -> bool:
        return self._window.cut

    def text(self, how: str) -> str:
        """For the result of the call: both ends. `how`: how to get the rest."""
        window = self._window.with_end(self._lines.tail.encode("utf-8", "replace"))
        if window.cut:
            self._spill()
        return window.text(f"… {window.size} bytes in all, the middle is left out; {how}; {self._place} …")

    @property
    def _place(self) -> str:
        if self._memory is not None or self._broken:
            return "not kept: no log could be written"
        whole = "all of it" if self._window.size <= SAVED_LIMIT else f"its first {SAVED_LIMIT // 10**6} MB"
        return f"{whole} is in {self.log}"

    def since(self, offset: int) -> tuple[str, int]:
        """Up to PIECE bytes from there, and the offset of what follows. A line that is not finished, and is the last,
        comes again with the next piece."""
        tail = self._lines.tail.encode("utf-8", "replace")
        whole = self._saved + len(tail)
        offset = max(0, min(offset, whole))
        data = self._stored(offset) if offset < self._saved else b""
        if offset + len(data) >= self._saved:
            data += tail[offset + len(data) - self._saved :]
        data = data[:PIECE]
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        following = offset + len(data) - len(decoder.getstate()[0])  # half of a character comes with the next piece
        return text, max(offset, self.told) if following >= whole else following

    @property
    def told(self) -> int:
        """The offset behind the last line that is finished."""
        tail = b"" if self._ended else self._lines.tail.encode("utf-8", "replace")
        return self.size - len(tail.rpartition(b"\n")[2])

    def _stored(self, offset: int) -> bytes:
        if self._memory is not None:
            return bytes(self._memory[offset : offset + PIECE])
        try:
            with self.log.open("rb") as file:
                file.seek(offset)
                return file.read(PIECE)
        except OSError:
            return b""

    # ---- keeping
    def _keep(self, text: str) -> None:
        if not text:
            return
        data = text.encode("utf-8", "replace")
        self._window.add(data)
        if self._show is not None:
            self._pending = (self._pending + text)[-LIVE_PIECE:]
        if self._saved >= SAVED_LIMIT:
            return
        if self._memory is not None and len(self._memory) + len(data) > IN_MEMORY:
            self._spill()
        if self._memory is not None and len(self._memory) < IN_MEMORY:
            self._memory += data[:IN_MEMORY]
        elif self._memory is None:
            try:
                with self.log.open("ab") as file:
                    file.write(data)
            except OSError:
                self._broken = True
        self._saved += len(data)

    def _spill(self) -> None:
        if self._memory is None:
            return
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            forget_old_logs(self.log.parent)
            self.log.write_bytes(self._memory)
        except OSError:
            return
        self._memory = None

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._show is not None:
            text, self._pending = self._pending, ""
            self._live += len(text)
            if text:
                self._show(text)
            self._show_tail(self._lines.tail)


def forget_old_logs(folder: Path) -> None:
    """The oldest go first, once all together are more than KEPT_LOGS."""
    logs: list[tuple[float, int, Path]] = []
    for path in folder.glob("bash-*.log"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            logs.append((stat.st_mtime, stat.st_size, path))
    total = 0
    for _, size, path in sorted(logs, reverse=True):
        total += size
        if total > KEPT_LOGS:
            with contextlib.suppress(OSError):
                path.unlink()
