"""How calls are read: the one object that wiring hands to the core."""

from __future__ import annotations

from collections.abc import Collection

from agent.model.repair import read_arguments
from agent.model.textual import calls_in
from agent.protocols import Arguments


class LenientCalls:
    def arguments(self, raw: str) -> Arguments:
        return read_arguments(raw)

    def calls_in(self, text: str, tools: Collection[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
        return calls_in(text, tools)
