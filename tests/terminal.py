"""A terminal of a given size with a program in it: a pseudo-terminal, and as much of an emulator as a full-screen
program needs. What it does not know it refuses, so that nothing is misread in silence."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.cells import get_character_cell_size

_TOKEN = re.compile(
    r"\x1b\[(?P<private>[<=>?]?)(?P<args>[\d;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|(?P<string>\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\))"
    r"|(?P<escape>\x1b(?:[ -/]+[0-~]|[0-OQ-WYZ\\`-~]))"
    r"|(?P<char>[^\x1b])",
    re.S,
)
_QUIET = set("mhlrtuqpcn")  # colours, modes, queries: nothing that moves text


class Terminal:
    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._blank()
        self.modes: set[str] = set()
        self.status: int | None = None
        self.pid, self._fd = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(cwd)
            os.execvpe(argv[0], list(argv), dict(env))

    # ---- the user
    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._blank()
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, condition: Callable[[str], bool], seconds: float = 60.0) -> str:
        """The screen as text, once it satisfies `condition`."""
        limit = time.monotonic() + seconds
        while not condition(self.text):
            if time.monotonic() > limit or not self._read():
                raise AssertionError(f"not seen; the screen is\n{self.text}")
        return self.text

    def wait(self, seconds: float = 30.0) -> int:
        """The exit status, as a shell gives it."""
        limit = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < limit, f"still running; the screen is\n{self.text}"
        if self.status is None:
            status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.status = status if status >= 0 else 128 - status
        return self.status

    def close(self) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            self.wait()
        os.close(self._fd)

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self._cells)

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    # ---- the screen
    def _blank(self) -> None:
        self._cells = [[" "] * self.columns for _ in range(self.rows)]
        self._x = self._y = 0

    def _read(self) -> bool:
        """False once the program has gone."""
        if select.select([self._fd], [], [], 0.05)[0]:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:
                return False
            self._feed(self._decoder.decode(data))
            return bool(data)
        return True

    def _feed(self, text: str) -> None:
        text = self._rest + text
        end = 0
        for token in _TOKEN.finditer(text):
            if token.start() != end:
                break
            end = token.end()
            if token["char"] is not None:
                self._char(token["char"])
            elif token["final"] is not None:
                self._control(token["private"], token["args"], token["final"])
        self._rest = text[end:]
        assert len(self._rest) < 100_000, f"cannot be read: {self._rest[:80]!r}"

    def _char(self, char: str) -> None:
        if char == "\n":
            self._y = min(self._y + 1, self.rows - 1)
        elif char == "\r":
            self._x = 0
        elif char == "\b":
            self._x = max(0, self._x - 1)
        elif char.isprintable():
            width = get_character_cell_size(char)
            if width and self._x + width <= self.columns and self._y < self.rows:
                self._cells[self._y][self._x : self._x + width] = [char] + [""] * (width - 1)
            self._x += width
        else:
            assert char in "\x00\x07\x0e\x0f\x7f", f"cannot show {char!r}"

    def _control(self, private: str, args: str, final: str) -> None:
        numbers = [int(n) if n else 0 for n in re.split("[;:]", args)]
        first = numbers[0]
        if final in "hl" and private == "?":
            self.modes = self.modes | set(args.split(";")) if final == "h" else self.modes - set(args.split(";"))
        elif final in "Hf":
            self._y = min(max(first, 1), self.rows) - 1
            self._x = max((numbers[1:] or [1])[0], 1) - 1
        elif final in "ABCD":
            step = max(first, 1)
            self._y = min(max(self._y + step * {"A": -1, "B": 1}.get(final, 0), 0), self.rows - 1)
            self._x = min(max(self._x + step * {"D": -1, "C": 1}.get(final, 0), 0), self.columns - 1)
        elif final == "G":
            self._x = max(first, 1) - 1
        elif final == "J" and first in (2, 3):
            x, y = self._x, self._y
            self._blank()
            self._x, self._y = x, y
        elif final == "K" and first == 0:
            self._cells[self._y][self._x :] = [" "] * max(0, self.columns - self._x)
        else:
            assert private or final in _QUIET, f"cannot follow ESC[{private}{args}{final}"
