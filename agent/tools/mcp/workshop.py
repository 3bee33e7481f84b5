"""A server of one's own: a small one that works, with its tests, registered in the project. Overwrites nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from agent.errors import ConfigError

PLACE = "mcp-servers"  # not `mcp`: a folder of that name would hide the library from Python
FILES = {"server.py": "server.txt", "test_server.py": "test_server.txt"}
PYTHON = "DFLASH_PYTHON"  # the interpreter that has the library; set for servers that dflash-agent starts


def write_server(folder: Path, name: str) -> tuple[Path, Mapping[str, Any]]:
    """The server's file and its entry for `.mcp.json`. Raises ConfigError for a bad name or where a file is there."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", name):
        raise ConfigError(f"{name!r} is no good name for a server: small letters, digits and hyphens, a letter first.")
    place = folder / PLACE / name
    if taken := [file for file in FILES if (place / file).exists()]:
        raise ConfigError(f"{place / taken[0]} is there already; choose another name.")
    templates = resources.files("agent") / "tools" / "mcp" / "new"
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file, template in FILES.items():
            text = (templates / template).read_text(encoding="utf-8")
            (place / file).write_text(text.replace("NAME", name).replace("FOLDER", f"{PLACE}/{name}"), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot write in {place}: {error.strerror or error}.") from error
    command = {"command": f"${{{PYTHON}:-python3}}", "args": [f"{PLACE}/{name}/server.py"], "reload": True}
    return place / "server.py", command
