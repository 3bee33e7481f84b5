"""One command in a pseudo-terminal of its own. Knows descriptors and bytes, not what the command is for.

The command is not the leader of its session: when a leader ends, the kernel hangs up on all that share its terminal,
and a server that was left in the background would die with the command that started it. So a shell of four lines leads.
It tells the command's status and stays until its input is closed, which happens at the latest when we are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

LEADER = """trap : HUP INT QUIT TERM
exec 3<>"$1"; shift
(exec "$@" <&3 >&3 2>&3 3>&-)
status=$?; exec 3>&-; echo $status; read -r _"""
ROWS, COLUMNS = 40, 120
READ_SIZE = 65_536  # bytes in one go; then the loop gets its turn
QUIET = 0.02  # seconds without a byte after which a terminal that others still hold has told all
DRAIN = 0.3  # seconds for it at most; the kernel holds some kilobytes
STATE_NAME = "DFLASH_STATE"  # the environment variable that names the descriptor


class Terminal:
    """`argv` runs at once, in `cwd`. `on_data` returns False when it has had enough. `mark` names the descriptor that
    all its processes inherit, unless they close what they do not know. Raises OSError when it cannot be started."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], mark: str, on_data: Callable[[bytes], bool]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_data = on_data
        self.mark = mark
        self.flooded = asyncio.Event()
        self.over = asyncio.Event()
        self.hung_up = asyncio.Event()  # nobody has the terminal open any more
        self.code: int | None = None  # as a shell gives it; None: nobody could tell
        self._read = 0
        with contextlib.ExitStack() as undo:

            def closing(*descriptors: int) -> None:
                for descriptor in descriptors:
                    undo.callback(os.close, descriptor)

            self._master, self._slave = os.openpty()
            closing(self._master, self._slave)
            self.name = os.ttyname(self._slave)
            self._state = os.memfd_create(self.tether(mark))
            closing(self._state)
            status_read, status_write = os.pipe()
            gate_read, gate_write = os.pipe()
            closing(status_read, gate_write)
            try:
                self._set_up()
                self._leader = subprocess.Popen(
                    ["/bin/sh", "-c", LEADER, "sh", self.name, *argv],
                    cwd=cwd,
                    env={**env, STATE_NAME: str(self._state)},
                    stdin=gate_read,
                    stdout=status_write,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=(self._state,),
                )
            finally:
                os.close(status_write)
                os.close(gate_read)
            undo.pop_all()
        self._status, self._gate = status_read, gate_write
        self._loop.add_reader(self._status, self._told)
        self._loop.add_reader(self._master, self._readable)

    @staticmethod
    def tether(mark: str) -> str:
        return f"dflash-{mark}"

    @property
    def leader(self) -> int:
        """Its pid, which is also the session's number."""
        return self._leader.pid

    def _set_up(self) -> None:
        os.set_blocking(self._master, False)
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        settings = termios.tcgetattr(self._slave)
        settings[1] &= ~termios.OPOST  # a line feed stays one
        termios.tcsetattr(self._slave, termios.TCSANOW, settings)

    # ---- reading
    def _told(self) -> None:
        self._loop.remove_reader(self._status)
        word = os.read(self._status, 20).split()
        self.code = int(word[0]) if word and word[0].isdigit() else None
        self.over.set()

    def _readable(self) -> None:
        pieces: list[bytes] = []
        size = 0
        with contextlib.suppress(BlockingIOError):
            while size < READ_SIZE:
                try:
                    piece = os.read(self._master, READ_SIZE)
                except BlockingIOError:
                    raise
                except OSError:  # the kernel's word for a terminal that nobody holds
                    self._stop_reading()
                    self.hung_up.set()
                    break
                pieces.append(piece)
                size += len(piece)
        self._read += size
        if size and not self._on_data(b"".join(pieces)):
            self._stop_reading()
            self.flooded.set()

    def _stop_reading(self) -> None:
        self._loop.remove_reader(self._master)

    async def drain(self) -> None:
        """Once the command is over: what it has said is taken in, though others may go on using the terminal."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1
        until = self._loop.time() + DRAIN
        before = -1
        while not self.hung_up.is_set() and self._read != before and self._loop.time() < until:
            before = self._read
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.hung_up.wait(), QUIET)

    def state(self) -> bytes:
        """What the command left on its own descriptor."""
        size = os.fstat(self._state).st_size
        return os.pread(self._state, size, 0)

    # ---- writing
    def write(self, data: bytes) -> int:
        """As typed; the number of bytes that the terminal took. Raises OSError where nobody is there any more."""
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0

    def keys(self) -> tuple[bool, bool]:
        """Does it take single keys rather than lines? Does it hide what is typed?"""
        try:
            flags: int = termios.tcgetattr(self._master)[3]
        except termios.error:
            return False, False
        return not flags & termios.ICANON, not flags & termios.ECHO

    # ---- the end
    def close(self) -> None:
        """Lets the leader go; whoever still uses the terminal is hung up on."""
        self._stop_reading()
        self._loop.remove_reader(self._status)
        for descriptor in (self._gate, self._master, self._slave, self._state, self._status):
            if descriptor >= 0:
                os.close(descriptor)
        self._slave = -1
        if self._leader.poll() is None:
            self._leader.kill()  # its word has come, or it has none
        self._leader.wait()
