"""The names of MCP tools as the model sees them: `mcp__server__tool`, in the letters and the length that every server
of an OpenAI kind takes. Reversible by asking the book."""

from __future__ import annotations

import hashlib
import re

LONGEST = 64  # characters; ^[a-zA-Z0-9_-]{1,64}$ is what such servers allow
HASH = 6  # characters of a hash where a name had to be cut or two would be the same
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class Names:
    """Gives each (server, tool) one name for as long as it lives, whoever comes first."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[str, str]] = {}
        self._by_tool: dict[tuple[str, str], str] = {}

    def of(self, server: str, tool: str) -> str:
        key = (server, tool)
        if key not in self._by_tool:
            plain = f"mcp__{_OTHER.sub('_', server)}__{_OTHER.sub('_', tool)}"
            name = plain if len(plain) <= LONGEST and plain not in self._by_name else _hashed(plain, key)
            self._by_tool[key], self._by_name[name] = name, key
        return self._by_tool[key]

    def find(self, name: str) -> tuple[str, str] | None:
        """(server, tool) of a name that was given out."""
        return self._by_name.get(name)


def _hashed(plain: str, key: tuple[str, str]) -> str:
    mark = hashlib.sha256("\0".join(key).encode("utf-8", "replace")).hexdigest()[:HASH]
    return f"{plain[: LONGEST - HASH - 1]}_{mark}"


def loose(name: str) -> str:
    """The same for spellings that mean the same."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
