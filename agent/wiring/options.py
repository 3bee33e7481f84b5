"""What the command line said, as the rest of the wiring reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.core.permissions import Mode


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said. `profile` and `mode` None: as the configuration says. `server`: URL to attach to.
    `trust`: what came with the folder may run, this time."""

    folder: Path
    extra: tuple[Path, ...] = ()
    profile: str | None = None
    speculation: bool = True
    ctx: int | None = None
    server: str | None = None
    mode: Mode | None = None
    max_turns: int | None = None
    resume: str | None = None
    resume_last: bool = False
    fork: bool = False
    offline: bool = False
    trust: bool = False
    mcp_config: tuple[str, ...] = ()
