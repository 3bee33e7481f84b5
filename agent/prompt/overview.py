"""What skills and commands there are, for the user's eyes."""

from __future__ import annotations

from agent.prompt.custom import Customs
from agent.prompt.skills import Found

NAME, ABOUT = 16, 66  # columns; a line then fits into a window of 96
PLACES = ("hidden", "not trusted")  # what is said of these is a place on disk, whole


def overview(found: Found, customs: Customs) -> str:
    """A line each; then what does not count and why, and what is odd."""
    lines = [_line(s.name, s.scope, s.description) for s in found.skills]
    lines += [_line(f"/{c.name}", "command", c.summary) for c in customs.commands]
    lines += [_line(s.name, "hidden", f"{winner.file} is used instead of {s.file}") for s, winner in found.hidden]
    lines += [_line(s.name, "not trusted", f"{s.description} ({s.file})") for s in found.untrusted]
    lines += [_line(f"/{c.name}", "not trusted", str(c.file)) for c in customs.untrusted]
    if found.untrusted or customs.untrusted:
        lines.append("What is not trusted does not count; /skills trust, or --trust for one run, lets it.")
    lines += [f"note: {note}" for note in (*found.notes, *customs.notes)]
    return "\n".join(lines) or "There are no skills."


def _line(name: str, kind: str, about: str) -> str:
    short = about if len(about) <= ABOUT or kind in PLACES else about[: ABOUT - 1] + "…"
    return f"{name:<{NAME}} {kind:<8} {short}"
