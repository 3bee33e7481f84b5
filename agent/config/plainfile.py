"""Reading files that came with a project, or that a user wrote: a name in them may lead to a device or a pipe, which
would block or never end."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

LONGEST = 8_000_000  # bytes; far more than a person writes into a configuration


def open_plain(file: Path) -> BufferedReader:
    """Raises OSError, also for what is no plain file."""
    # not blocking: a pipe that nobody writes to would hold even the opening
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    raise OSError(errno.EINVAL, "It is a pipe, socket or device", str(file))


def read_plain(file: Path) -> bytes:
    """Raises OSError, also for what is no plain file, or none that a person wrote."""
    with open_plain(file) as opened:
        data = opened.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise OSError(errno.EFBIG, f"It is longer than {LONGEST / 1e6:.0f} MB", str(file))
    return data


def read_text(file: Path) -> str:
    """UTF-8, with or without a byte order mark. Raises OSError as above, UnicodeDecodeError."""
    return read_plain(file).decode("utf-8-sig")
