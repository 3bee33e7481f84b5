"""What the model reads when a skill or a custom command is used: its text as it is on disk at that moment, where its
files are, and what must be done now. Small models read a skill and then go on as before; so the last words are an
order."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.prompt.frontmatter import Page
from agent.prompt.skills import FILE, PASSED_OVER, Skill, load_page, tool_names

FILES = 40  # of a skill, named to the model
POINTS, POINT = 15, 160  # of a check list, and characters of each
BODY = 32_000  # characters; the specification advises 5000 tokens

_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(\S.*)$")
_BOX = re.compile(r"^\s*[-*+]\s+\[[ xX]\]\s+(\S.*)$")
_SHELL = re.compile(r"!`[^`\n]+`")
_POSITION = re.compile(r"\$(?:ARGUMENTS\[(\d+)\]|(\d))(?!\d)")


@dataclass(frozen=True, slots=True)
class Activation:
    """`marker` stands in `text` and nowhere else: with it, the text is known to be in a conversation. `points`: the
    check list. `allowed`: the tools to keep to, as the file names them; empty for all."""

    name: str
    marker: str
    text: str
    again: str
    points: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


def activate(skill: Skill, arguments: str, facts: str) -> Activation:
    """`facts`: a line about the folder and the permission mode, or empty. Raises ToolFailure when the file cannot be
    read any more."""
    page = load_page(skill.file)
    folder = str(skill.folder)
    body = _body(page, arguments, folder, positions=bool(page.text("argument-hint")))
    points = check_list(page.body)
    files = skill_files(skill.folder)
    stamp = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()[:8]
    marker = f'<skill name="{skill.name}" version="{stamp}">'
    orders = _orders(skill.name, folder if files else "", points, facts)
    parts = [f"{marker}\n{body}\n</skill>"]
    if files:
        parts.append(f"Files of this skill in {folder}: {', '.join(files)}")
    if _SHELL.search(page.body):
        parts.append("Nothing of the form !`command` was run; run such a command yourself if you need its output.")
    parts.append(orders)
    again = f"The skill {skill.name} stands above already, unchanged. {orders}"
    return Activation(
        skill.name, marker, "\n\n".join(parts), again, points, tool_names(page.fields.get("allowed-tools"))
    )


def _orders(name: str, folder: str, points: Sequence[str], facts: str) -> str:
    said = [f"Now do what the skill {name} says, for the task the user gave: its steps in order, with tool calls."]
    if folder:
        said.append("Read a file of the skill, by its full path, when a step names it.")
    said.append("Run what you make and read the output before the next step.")
    if points:
        said.append(f"You are done when all {len(points)} points of its check list hold; put them on your todo list.")
    if facts:
        said.append(facts)
    return " ".join(said)


def expand(page: Page, arguments: str) -> str:
    """The text of a custom command."""
    text = _body(page, arguments, "", positions=True)
    if _SHELL.search(page.body):
        text += "\n\nNothing of the form !`command` was run; run such a command yourself if you need its output."
    return text


def _body(page: Page, arguments: str, folder: str, *, positions: bool) -> str:
    body = (
        page.body if len(page.body) <= BODY else f"{page.body[:BODY]}\n[cut: {len(page.body) - BODY} characters more]"
    )
    named = "$ARGUMENTS" in body
    if folder:
        body = body.replace("${CLAUDE_SKILL_DIR}", folder).replace("${SKILL_DIR}", folder)
    if positions and _POSITION.search(body):
        named = named or bool(arguments)
        words = _words(arguments)
        first = 0 if re.search(r"\$0(?!\d)", body) else 1

        def word(match: re.Match[str]) -> str:
            at = int(match[1]) if match[1] else int(match[2]) - first
            return words[at] if 0 <= at < len(words) else ""

        body = _POSITION.sub(word, body)
    body = body.replace("$ARGUMENTS", arguments)
    return body if named or not arguments else f"{body}\n\nThe user's words: {arguments}"


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a lone quote
        return arguments.split()


def check_list(body: str) -> tuple[str, ...]:
    """The points below a heading such as `## Check list`; without one, every `- [ ]` of the text. Code is no list."""
    points: list[str] = []
    boxes: list[str] = []
    inside = fenced = False
    for line in body.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        if fenced:
            continue
        if heading := _HEADING.match(line):
            inside = re.sub(r"[^a-z]", "", heading[1].lower()).endswith("checklist")
        elif inside and (item := _ITEM.match(line)):
            points.append(item[1].strip())
        elif box := _BOX.match(line):
            boxes.append(box[1].strip())
    chosen = (points or boxes)[:POINTS]
    return tuple(p if len(p) <= POINT else p[: POINT - 1] + "…" for p in chosen)


def skill_files(folder: Path) -> tuple[str, ...]:
    """Its files but SKILL.md, hidden ones and its tests, in order; the last entry counts what was left out."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        below = os.path.relpath(place, folder)
        deep = below != os.curdir and below.count(os.sep) >= 2
        folders[:] = (
            [] if deep else sorted(f for f in folders if not _passed_over(f) and (below, f) != (os.curdir, "evals"))
        )
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(".pyc") and (below, name) != (os.curdir, FILE):
                found.append(os.path.normpath(os.path.join(below, name)))
        if len(found) > 20 * FILES:
            break
    shown = [name.encode("utf-8", "replace").decode() for name in found[:FILES]]
    return (*shown, f"and {len(found) - FILES} more") if len(found) > FILES else tuple(shown)


def _passed_over(name: str) -> bool:
    return name.startswith(".") or name in PASSED_OVER
