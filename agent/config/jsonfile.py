"""Small JSON files that the program keeps for itself: read without trust, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.config.foreign import mapping
from agent.config.plainfile import read_plain


def read_object(path: Path) -> Mapping[str, Any]:
    """The object in the file; an empty one where there is none that can be read."""
    try:
        return mapping(json.loads(read_plain(path)))
    except (OSError, ValueError, RecursionError):
        return {}


def write_json(path: Path, data: Any) -> None:
    """Whole or not at all, readable by this user alone. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump(data, file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
