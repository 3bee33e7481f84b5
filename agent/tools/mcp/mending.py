"""What to do when the engine refuses the tool list: first say odd schemas in a plainer way, then find the tools at
fault and set them aside. They are still reached by mcp_call, whose own schema is plain. Knows no pool and no model
client."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.config.jsonfile import read_object, write_json
from agent.config.trust import digest_of
from agent.tools.mcp.schema import is_endless, plain_schema

Entry = Mapping[str, Any]
Accepts = Callable[[str], Awaitable[bool]]


class Refusals:
    """What an engine refused before, so that it is not offered again: by engine and schema."""

    def __init__(self, file: Path, engine: str) -> None:
        self._file = file
        self._engine = engine

    def adapted(self, entry: Entry) -> Entry | None:
        """The entry as the engine takes it, as far as is known; None: set aside."""
        verdict = read_object(self._file).get(self._key(entry))
        if verdict is None:
            return plainer(entry) if is_endless(entry["function"]["parameters"]) else entry
        return plainer(entry) if verdict == "plain" else None

    def note(self, entries: Sequence[Entry], verdict: str) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._file, {**read_object(self._file), **{self._key(e): verdict for e in entries}})

    def _key(self, entry: Entry) -> str:
        return f"{self._engine} {digest_of(entry['function']['parameters'])[:24]}"


def plainer(entry: Entry) -> Entry:
    function = entry["function"]
    return {**entry, "function": {**function, "parameters": plain_schema(function["parameters"])}}


def name_of(entry: Entry) -> str:
    return str(entry["function"]["name"])


def dumped(entries: Sequence[Entry]) -> str:
    """As `tool_schemas` writes them."""
    return json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


async def mended(
    tools: str, foreign: Collection[str], accepts: Accepts, refusals: Refusals
) -> tuple[str, str, frozenset[str]] | None:
    """The list in a form that the engine may take, what to tell the user, and the names that are set aside. `foreign`:
    names of MCP tools in it. `accepts` tries a list. None: nothing of it is foreign."""
    entries: list[Entry] = json.loads(tools) if tools else []
    theirs = [e for e in entries if name_of(e) in foreign]
    if not theirs:
        return None
    odd = [e for e in theirs if plainer(e) != e]
    if odd:
        refusals.note(odd, "plain")
        names = ", ".join(map(name_of, odd))
        told = f"The engine refused the tool list; these MCP tools are described in a plainer way: {names}."
        return dumped([plainer(e) if e in odd else e for e in entries]), told, frozenset()
    guilty = await _guilty(theirs, accepts) or theirs
    refusals.note(guilty, "out")
    names = frozenset(map(name_of, guilty))
    told = f"The engine refuses the schema of {', '.join(sorted(names))}: set aside, still reached by mcp_call."
    return dumped([e for e in entries if name_of(e) not in names]), told, names


async def _guilty(entries: Sequence[Entry], accepts: Accepts) -> list[Entry]:
    """By halving: a list that is taken clears all that is in it."""
    if await accepts(dumped(entries)):
        return []
    if len(entries) == 1:
        return list(entries)
    half = len(entries) // 2
    return [*await _guilty(entries[:half], accepts), *await _guilty(entries[half:], accepts)]
