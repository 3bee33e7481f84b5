"""Custom commands: Markdown files whose text is sent when the user writes their name behind a slash."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.config.trust import Thing, Trust, digest_of_files
from agent.errors import ToolFailure
from agent.prompt.skills import Note, Root, load_page, places, slug, tool_names

PROJECT_PLACES = (".dflash/commands", ".claude/commands")
USER_PLACES = (".claude/commands",)  # below the home folder, after the user's own configuration
DEPTH = 3  # folders below a root; each gives its name to the commands in it
COMMANDS = 500  # of one root
SUMMARY = 100  # characters


@dataclass(frozen=True, slots=True)
class Custom:
    """`name`: `deploy`, or `web:deploy` for `web/deploy.md`. `hint`: how its arguments are written. `allowed`: the
    tools it keeps to, as its file names them; empty for all."""

    name: str
    summary: str
    hint: str
    file: Path
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Customs:
    """`commands`: nearest first, each name once. `untrusted`: those of a project that nobody has trusted, unread."""

    commands: tuple[Custom, ...] = ()
    untrusted: tuple[Custom, ...] = ()
    notes: tuple[Note, ...] = ()


def command_roots(folder: Path, config: Path, home: Path | None) -> tuple[Root, ...]:
    """Where custom commands are looked for, nearest first."""
    users = [config / "commands", *(home / place for place in USER_PLACES if home)]
    return places(folder, PROJECT_PLACES, users)


def find_commands(searched: Iterable[Root], trust: Trust) -> Customs:
    """Never raises: what cannot be read becomes a note."""
    named: dict[str, Custom] = {}
    untrusted: list[Custom] = []
    notes: list[Note] = []
    for root in searched:
        for file in _files(root.folder):
            if root.scope == "project" and not trust.allows(thing_of_file(file)):
                untrusted.append(Custom(_name(file, root.folder) or file.stem, "", "", file))
                continue
            command = _read(file, root.folder, notes)
            if command is not None and command.name not in named:
                named[command.name] = command
    return Customs(tuple(named.values()), tuple(untrusted), tuple(notes))


def thing_of_file(file: Path) -> Thing:
    return Thing(file, digest_of_files([file]))


def _files(root: Path) -> list[Path]:
    found: list[Path] = []
    for place, folders, names in os.walk(root):
        deep = len(Path(place).relative_to(root).parts) >= DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith("."))
        found += (Path(place, name) for name in sorted(names) if name.endswith(".md") and not name.startswith("."))
        if len(found) >= COMMANDS:
            break
    return [f for f in found[:COMMANDS] if f.is_file()]


def _read(file: Path, root: Path, notes: list[Note]) -> Custom | None:
    try:
        page = load_page(file)
    except ToolFailure as failure:
        notes.append(Note(file, 1, f"left out: {failure}"))
        return None
    notes += (Note(file, fault.line, fault.text) for fault in page.faults)
    if not page.body.strip():
        notes.append(Note(file, page.body_line, "left out: it has no text"))
        return None
    name = _name(file, root)
    first = next(line for line in page.body.split("\n") if line.strip())
    summary = page.text("description") or first.strip(" #*_")
    summary = summary if len(summary) <= SUMMARY else summary[: SUMMARY - 1] + "…"
    hint = page.text("argument-hint") or ("[words]" if "$ARGUMENTS" in page.body else "")
    return Custom(name, summary, hint, file, tool_names(page.fields.get("allowed-tools"))) if name else None


def _name(file: Path, root: Path) -> str:
    return ":".join(filter(None, (slug(part) for part in file.relative_to(root).with_suffix("").parts)))
