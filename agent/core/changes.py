"""What calls do to files, as a session sees it: kept before each change, put back when the user asks."""

from __future__ import annotations

from collections.abc import Callable

from agent.core.permissions import changes_of
from agent.errors import AgentError
from agent.events import Event, FilesRestored, Notice
from agent.protocols import Checkpoints, Plan


class Changes:
    """`checkpoints` None: nothing is kept. `running`: does a turn run now?"""

    def __init__(
        self, checkpoints: Checkpoints | None, publish: Callable[[Event], None], running: Callable[[], bool]
    ) -> None:
        self._checkpoints = checkpoints
        self._publish = publish
        self._running = running

    async def before(self, turn: int, plan: Plan) -> None:
        if self._checkpoints is None:
            return
        files, whole = changes_of(plan)
        if (files or whole) and (note := await self._checkpoints.before(turn, files, whole=whole)):
            self._publish(Notice("warning", note))

    async def after(self, turn: int) -> None:
        if self._checkpoints is not None:
            await self._checkpoints.after(turn)

    async def restore(self, *, redo: bool = False) -> FilesRestored:
        """Puts back what the last turn did to files, or does it again. Raises AgentError."""
        if self._running():
            raise AgentError("A turn is running; stop it first (Esc).")
        kept = self._kept()
        done = await (kept.redo() if redo else kept.undo())
        event = FilesRestored(done.turn, done.paths, done.kept, done.left_out, redo)
        self._publish(event)
        return event

    async def changed(self, turn: int | None) -> list[tuple[str, bytes, bytes]]:
        """Name, old and new content of files that this session (or one turn) changed. Raises AgentError."""
        return await self._kept().changed(turn)

    def last(self) -> tuple[int, list[str]] | None:
        """The turn that would be undone, and its files."""
        return self._checkpoints.last() if self._checkpoints is not None else None

    def _kept(self) -> Checkpoints:
        if self._checkpoints is None:
            raise AgentError("Changes are not kept in this session.")
        return self._checkpoints
