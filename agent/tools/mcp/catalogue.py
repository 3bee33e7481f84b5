"""What a server offers, and what of it was known the last time. Plain data in the protocol's own words; knows no
connection."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from agent.config.foreign import mapping
from agent.config.jsonfile import read_object, write_json
from agent.config.mcp import Entry

CHARS_PER_TOKEN = 4.4  # 52 tools of seven reference servers: 31.8 kB of JSON are 7,105 tokens of Gemma's
DESCRIPTION = 2_000  # characters of one tool's description that the model gets; others have settled on the same
KEPT = 200  # remembered servers


@dataclass(frozen=True, slots=True)
class ServerTool:
    """`schema`: its input schema as the server sent it. `hints`: its annotations, which are claims of the server."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    hints: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def summary(self) -> str:
        """The first sentence of the description, one line."""
        line = " ".join(self.description.split())
        end = line.find(". ")
        line = line[: end + 1] if 0 < end < 120 else line
        return line if len(line) <= 120 else line[:117] + "…"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """`era`: the protocol revision. `resources` and `prompts`: whether it offers any."""

    tools: tuple[ServerTool, ...] = ()
    era: str = ""
    title: str = ""
    instructions: str = ""
    resources: bool = False
    prompts: bool = False

    def find(self, tool: str) -> ServerTool | None:
        return next((t for t in self.tools if t.name == tool), None)


@dataclass(frozen=True, slots=True)
class Change:
    """From one catalogue of a server to the next, by names of tools."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def change(before: Catalogue, after: Catalogue) -> Change:
    old, new = {t.name: t for t in before.tools}, {t.name: t for t in after.tools}
    return Change(
        tuple(n for n in new if n not in old),
        tuple(
            n for n in new if n in old and (old[n].schema, old[n].description) != (new[n].schema, new[n].description)
        ),
        tuple(n for n in old if n not in new),
    )


def described(tool: ServerTool) -> str:
    text = tool.description.strip()
    return text if len(text) <= DESCRIPTION else f"{text[:DESCRIPTION]} …"


def block_entry(name: str, tool: ServerTool, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """How a tool stands in the tool list of a request. `schema`: instead of its own."""
    function = {"name": name, "description": described(tool), "parameters": schema or tool.schema}
    return {"type": "function", "function": function}


def tokens_of(value: Any) -> int:
    """About how many tokens a piece of a tool list takes."""
    return math.ceil(len(json.dumps(value, separators=(",", ":"), ensure_ascii=False)) / CHARS_PER_TOKEN)


class Memory:
    """Catalogues of earlier runs, one small file for each entry: what is small and known at the start of a session can
    stand in its tool list, which never changes afterwards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def recall(self, entry: Entry) -> Catalogue | None:
        data = read_object(self._file(entry))
        if not isinstance(data.get("tools"), list):
            return None
        tools = [mapping(t) for t in cast("list[Any]", data["tools"])]
        return Catalogue(
            tuple(_tool(t) for t in tools if t.get("name")),
            str(data.get("era") or ""),
            str(data.get("title") or ""),
            str(data.get("instructions") or ""),
            bool(data.get("resources")),
            bool(data.get("prompts")),
        )

    def keep(self, entry: Entry, catalogue: Catalogue) -> None:
        """Without a writable place nothing is remembered."""
        with contextlib.suppress(OSError, ValueError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._file(entry), asdict(catalogue))
            files = sorted(self._folder.glob("*.json"), key=lambda f: f.stat().st_mtime)
            for old in files[:-KEPT]:
                old.unlink(missing_ok=True)

    def _file(self, entry: Entry) -> Path:
        return self._folder / f"{entry.digest[:24]}.json"


def _tool(data: Mapping[str, Any]) -> ServerTool:
    return ServerTool(
        str(data["name"]), str(data.get("description") or ""), mapping(data.get("schema")), mapping(data.get("hints"))
    )
