"""`dflash-agent session`: what was said on this machine, from outside of any conversation."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from agent.commands.export import markdown
from agent.errors import ConfigError
from agent.protocols import Archive, SessionInfo
from agent.speech import harmless


def run(
    verb: str, archive: Archive, write: Callable[[str], None], ids: Sequence[str], *, file: str, as_json: bool
) -> int:
    """`write` takes text for stdout. Raises AgentError."""
    match verb:
        case "list":
            found = archive.list()
            if as_json:
                write(json.dumps({"sessions": [asdict(i) for i in found]}, indent=1) + "\n")
            else:
                write("".join(f"{line_of(i)}\n" for i in found))
        case "show":
            write(harmless(markdown(archive.load(ids[0]))))
        case "export" if file in ("", "-"):
            write(markdown(archive.load(ids[0])))
        case "export":
            _save(Path(file), markdown(archive.load(ids[0])))
        case _:
            for session_id in ids:
                archive.delete(session_id)
                print(f"Deleted session {session_id}.", file=sys.stderr)
    return 0


def line_of(info: SessionInfo) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.when))
    return "".join(c if c.isprintable() else " " for c in f"{info.id}  {when}  {info.folder}  {info.title}")


def _save(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", errors="replace") as out:
            out.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already; name another file.") from error
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}.") from error
