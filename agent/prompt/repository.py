"""What a repository shows of how to work in it, and the order to write that down as AGENTS.md. Reads a few files at its
top; runs nothing."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.config.foreign import mapping
from agent.prompt.instructions import NAMES
from agent.prompt.skills import PASSED_OVER

ENTRIES, TARGETS = 60, 20
BYTES = 200_000  # of one file that is looked at
WELL_KNOWN = (
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "CMakeLists.txt",
    "Gemfile",
    "composer.json",
    "tox.ini",
)
OTHERS = (".cursorrules", ".github/copilot-instructions.md", "GEMINI.md", "CONTRIBUTING.md")

ORDER = """Write {file}: what someone who works in this project must know and cannot see at a glance.

What is there:
{facts}

Do this in order:
1. Read the README and the files named above that say how it is built and tested, and two or three files of the code.
2. Run the tests with the command you found. If there is none or it fails, that belongs into the file too.
3. {write}. At most 60 lines, with these parts, and none of them where there is nothing to say:
   - one sentence on what the project is;
   - Commands: set up, run, all tests, one test, lint; only those that stand in a file or that you have run;
   - Layout: the five to ten places that matter, a line each;
   - Conventions: what the code shows, not what is good in general;
   - Watch out: what surprised you.
4. Say in two sentences what the file holds, and what you could not find out.

Write nothing that you have not seen. No general advice."""


def init_order(folder: Path) -> str:
    """What `/init` asks of the model."""
    top = next((p for p in (folder, *folder.parents) if (p / ".git").exists()), folder)
    there = next((name for name in NAMES if (top / name).is_file()), None)
    write = f"{there} exists: read it, keep what is true, and change it with edit" if there else "Write the file"
    return ORDER.format(file=top / (there or NAMES[0]), facts="\n".join(f"- {f}" for f in facts(top)), write=write)


def facts(top: Path) -> list[str]:
    """A line each; names and commands as they stand in the files."""
    found = [_entries(top)]
    found += _python(_toml(top / "pyproject.toml"))
    found += _node(_json(top / "package.json"))
    found += _make(top)
    found += [f"{name} is there" for name in (*WELL_KNOWN, *OTHERS) if (top / name).is_file()]
    flows = sorted(p.name for p in (top / ".github" / "workflows").glob("*.y*ml"))
    if flows:
        found.append(f"CI in .github/workflows: {', '.join(flows[:TARGETS])}")
    return found


def _entries(top: Path) -> str:
    try:
        with os.scandir(top) as entries:
            names = sorted(e.name + "/" * e.is_dir() for e in entries if e.name not in (".git", *PASSED_OVER))
    except OSError:
        names = []
    more = f" and {len(names) - ENTRIES} more" if len(names) > ENTRIES else ""
    shown = ", ".join(names[:ENTRIES]).encode("utf-8", "replace").decode()
    return f"the top folder {top} holds: {shown}{more}" if names else f"the folder {top} is empty"


def _python(data: Mapping[str, Any]) -> Iterator[str]:
    project, tools = mapping(data.get("project")), mapping(data.get("tool"))
    if project.get("name"):
        yield f"pyproject.toml: the Python package {project['name']}"
    if scripts := mapping(project.get("scripts")):
        yield f"pyproject.toml scripts: {', '.join(list(scripts)[:TARGETS])}"
    if extras := mapping(project.get("optional-dependencies")):
        yield f"pyproject.toml extras: {', '.join(list(extras)[:TARGETS])}"
    if tools:
        yield f"pyproject.toml has settings for: {', '.join(list(tools)[:TARGETS])}"


def _node(data: Mapping[str, Any]) -> Iterator[str]:
    for name, command in list(mapping(data.get("scripts")).items())[:TARGETS]:
        yield f"package.json: npm run {name} = {str(command)[:120]}"


def _make(top: Path) -> Iterator[str]:
    for name in ("Makefile", "justfile"):
        targets = re.findall(r"^([A-Za-z][\w-]*)[^\n:=]*:(?!=)", _text(top / name), re.M)
        if targets:
            yield f"{name} targets: {', '.join(list(dict.fromkeys(targets))[:TARGETS])}"


def _toml(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_text(file))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _json(file: Path) -> Mapping[str, Any]:
    try:
        return mapping(json.loads(_text(file)))
    except (ValueError, RecursionError):
        return {}


def _text(file: Path) -> str:
    try:
        if not file.is_file():
            return ""
        with file.open("rb") as opened:
            return opened.read(BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
