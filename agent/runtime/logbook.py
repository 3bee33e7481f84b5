"""What the engine says: the last lines in memory, all of it in a bounded file. Knows what the words mean only as far
as a failure has to be explained."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from pathlib import Path
from typing import IO

RING = 400  # lines
FILE_LIMIT = 5_000_000  # bytes; an engine near its memory limit has been seen to print 10,000 lines a second

_FAULTS: tuple[tuple[str, str], ...] = (
    (r"couldn't bind HTTP server socket", "The port was taken by another program. Start again."),
    (
        r"failed to open GGUF file '([^']*)'",
        "The model file {0} cannot be opened. Check that it is there and readable.",
    ),
    (r"invalid magic characters", "The model file is not a GGUF file (perhaps a web page was saved). Fetch it again."),
    (
        r"data is not within the file bounds",
        "The model file is cut off or damaged. Delete it, so that it is fetched again.",
    ),
    (
        r"error: invalid argument: (\S+)",
        "The engine does not know the flag {0}. The profile is for another version of it.",
    ),
    (r"error while handling argument \"([^\"]*)\": ?(.*)", "The engine refused the flag {0}: {1}"),
    (r"error while loading shared libraries: (\S+?):", "The engine lacks the library {0}. Build the engine again."),
    (
        r"unknown model architecture: '([^']*)'",
        "This engine cannot run models of the kind {0}. It needs another engine.",
    ),
    (r"requires 'target_layers'", "The draft model was made for another engine. Use a draft in the `dflash` format."),
    (r"failed to load draft model", "The draft model cannot be loaded. Start with --no-dflash, or fetch it again."),
    (r"(?:out of memory|failed to allocate|unable to allocate)", "Not enough memory. Use a smaller context (--ctx)."),
    (r"failed to load model", "The model cannot be loaded. Delete its file, so that it is fetched again."),
)


class Logbook:
    """`file` is started afresh; a place that cannot be written is no reason not to run."""

    def __init__(self, file: Path) -> None:
        self.path = file
        self._ring: deque[str] = deque(maxlen=RING)
        self._written = 0
        self._file: IO[str] | None = None
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = file.open("w", encoding="utf-8", errors="replace")

    def add(self, line: str) -> None:
        self._ring.append(line)
        if self._file is not None and self._written < FILE_LIMIT:
            self._written += len(line) + 1
            with contextlib.suppress(OSError):
                self._file.write(line + "\n")
                self._file.flush()

    def last(self, count: int) -> tuple[str, ...]:
        return tuple(self._ring)[-count:]

    def explain(self, status: int, doing: str = "while loading") -> str:
        """One sentence about an engine that ended, with the next step. `status` -N: killed by signal N."""
        text = "\n".join(self._ring)
        for pattern, sentence in _FAULTS:
            if found := re.search(pattern, text):
                return sentence.format(*found.groups())
        if status < 0:
            return f"The engine was ended by signal {-status} {doing}; its log is {self.path}."
        last = f" Its last words: {self._ring[-1]}" if self._ring else ""
        return f"The engine ended with status {status} {doing}; its log is {self.path}.{last}"

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
