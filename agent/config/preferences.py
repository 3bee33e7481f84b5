"""What the program remembers between runs. A file that is lost or damaged only means that it asks again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from agent.config.foreign import mapping
from agent.config.jsonfile import read_object, write_json


class Preferences:
    """`file` is JSON in the state folder; read anew each time, as other windows write it too."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def profile(self) -> str:
        """The profile that the user chose last; "" for none."""
        return self._text("profile")

    @property
    def server(self) -> str:
        """The address that the user chose last in place of a profile; "" for none."""
        return self._text("server")

    def choose(self, *, profile: str = "", server: str = "") -> None:
        self._write({"profile": profile, "server": server})

    def load_seconds(self, profile: str) -> float | None:
        """How long the last start of its engine took; None: it never ran here."""
        value = mapping(read_object(self._file).get("load_seconds")).get(profile)
        return float(value) if isinstance(value, int | float) and value > 0 else None

    def loaded(self, profile: str, seconds: float) -> None:
        known = mapping(read_object(self._file).get("load_seconds"))
        self._write({"load_seconds": {**known, profile: round(seconds, 1)}})

    def _text(self, key: str) -> str:
        value = read_object(self._file).get(key)
        return value if isinstance(value, str) else ""

    def _write(self, changes: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._file, {**read_object(self._file), **changes})
