"""What the model last saw of each file, so that nobody's lines are overwritten unread."""

from __future__ import annotations

from pathlib import Path

from agent.errors import ToolFailure
from agent.workspace.files import Content, read_file


class Seen:
    def __init__(self) -> None:
        self._stamps: dict[str, str] = {}

    def note(self, path: Path, stamp: str) -> None:
        self._stamps[str(path.resolve())] = stamp

    def state(self, path: Path, content: Content) -> str:
        """`never`, `changed` or `same`."""
        stamp = self._stamps.get(str(path.resolve()))
        return "never" if stamp is None else "same" if stamp == content.stamp else "changed"

    def was_seen(self, path: Path) -> bool:
        return str(path.resolve()) in self._stamps


def current(path: Path, name: str) -> Content | None:
    """What is there now; None where nothing is. Raises ToolFailure."""
    try:
        return read_file(path, name)
    except FileNotFoundError:
        return None


def unchanged(path: Path, name: str, stamp: str | None) -> Content | None:
    """Raises ToolFailure when the file is no longer what the plan saw."""
    now = current(path, name)
    if (now.stamp if now else "") != (stamp or ""):
        raise ToolFailure(f"{name} changed while this was being decided. Nothing was written; read it again.")
    return now
