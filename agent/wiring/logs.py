"""Where bugs and library warnings go."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
from pathlib import Path

LOG_BYTES = 2_000_000


def log_to(file: Path) -> None:
    """Bugs and library warnings go to a file, never to the user's screen. Without a writable place they are dropped."""
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handler = logging.handlers.RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=1, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
