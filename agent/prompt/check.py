"""What is wrong with a skill, measured by the Agent Skills specification and by what models of the middle size can
follow. Every finding names its line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from agent.errors import ToolFailure
from agent.prompt.activation import check_list
from agent.prompt.frontmatter import Page
from agent.prompt.skills import DESCRIPTION, FILE, load_page, name_faults, same_name, slug

COMPATIBILITY = 500  # characters, from the specification
BODY_LINES, BODY_TOKENS = 500, 5000  # advised there
TOKEN = 4  # characters of English Markdown
SHORT = 30  # characters: a description below that says what, or when, but not both
SPECIFIED = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
EXTENSIONS = (  # of other clients; those of the first line are honoured here
    *("disable-model-invocation", "user-invocable", "argument-hint"),
    *("model", "context", "agent", "hooks", "paths", "disallowed-tools", "version", "author", "tags", "arguments"),
)
QUERIES = ("evals/eval_queries.json", "eval_queries.json")

_LINK = re.compile(r"\]\((?!https?:|mailto:|#|/)([^)\s#]+)")
_CODED = re.compile(r"`((?:references|scripts|assets|templates)/[\w./-]+)`")


@dataclass(frozen=True, slots=True)
class Finding:
    """`error`: against the specification, or the skill cannot work. `warning`: it works, but not well."""

    level: Literal["error", "warning"]
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """A prompt that should, or should not, make the model choose the skill."""

    text: str
    wanted: bool


def check_skill(folder: Path) -> list[Finding]:
    """In order of lines; empty when all is well."""
    file = folder / FILE
    if not file.is_file():
        other = next((p.name for p in folder.glob("*") if p.name.lower() == FILE.lower()), None)
        why = f"it is called {other}; rename it" if other else f"there is none in {folder}"
        return [Finding("error", 1, f"a skill needs a {FILE}: {why}")]
    try:
        page = load_page(file)
    except ToolFailure as failure:
        return [Finding("error", 1, str(failure))]
    found = [Finding("error", fault.line, fault.text) for fault in page.faults]
    if not page.fenced:
        found.append(Finding("error", 1, "no front matter: begin with --- and name and description, then ---"))
        return found
    found += [*_name(page, folder), *_description(page), *_other_fields(page), *_body(page, folder), *_queries(folder)]
    return sorted(found, key=lambda f: f.line)


def _name(page: Page, folder: Path) -> list[Finding]:
    name, line = page.text("name"), page.line_of("name")
    if not name:
        return [Finding("error", line, f"the name is missing; the folder suggests: name: {slug(folder.name)}")]
    found = [Finding("error", line, f"the name {fault}; try {slug(name) or 'my-skill'}") for fault in name_faults(name)]
    if not same_name(name, folder.resolve().name):
        found.append(Finding("error", line, f"the name must be that of the folder, {folder.resolve().name}"))
    return found


def _description(page: Page) -> list[Finding]:
    text, line = page.text("description"), page.line_of("description")
    if not text:
        return [Finding("error", line, "the description is missing: say what the skill does and when to use it")]
    if len(text) > DESCRIPTION:
        return [Finding("error", line, f"the description has {len(text)} characters, {DESCRIPTION} at most")]
    if len(text) < SHORT:
        return [Finding("warning", line, "the description is too short to be chosen by: say what it does and when")]
    if not re.search(r"\b(when|whenever|for|use|if|before|after)\b", text, re.I):
        return [Finding("warning", line, "the description does not say when to use the skill (“Use when …”)")]
    return []


def _other_fields(page: Page) -> list[Finding]:
    found: list[Finding] = []
    for key, value in page.fields.items():
        line = page.line_of(key)
        if key not in SPECIFIED and key not in EXTENSIONS:
            found.append(Finding("warning", line, f"the field {key} is not in the specification; put it into metadata"))
        if key == "compatibility" and not 0 < len(page.text(key)) <= COMPATIBILITY:
            found.append(Finding("error", line, f"compatibility may have 1 to {COMPATIBILITY} characters"))
        if key == "metadata" and not (isinstance(value, Mapping) and _all_text(cast("Mapping[Any, Any]", value))):
            found.append(Finding("error", line, "metadata must map names to texts"))
        if key == "allowed-tools" and not isinstance(value, str):
            found.append(Finding("warning", line, "allowed-tools is written in one line: Bash(git:*) Read"))
    return found


def _all_text(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(v, str) for v in value.values())


def _body(page: Page, folder: Path) -> list[Finding]:
    body, line = page.body, page.body_line
    if not body.strip():
        return [Finding("error", line, "there is no text below the front matter: write the steps")]
    found: list[Finding] = []
    tokens = len(body) // TOKEN
    if tokens > BODY_TOKENS or body.count("\n") > BODY_LINES:
        size = f"about {tokens} tokens in {body.count(chr(10)) + 1} lines"
        found.append(Finding("warning", line, f"the text has {size}; move details into references/"))
    if not check_list(body):
        found.append(Finding("warning", line, "no check list: end with “## Check list” and - [ ] points to be done by"))
    for number, text in enumerate(body.split("\n"), line):
        for name in (*_LINK.findall(text), *_CODED.findall(text)):
            target = folder / name
            if not target.resolve().is_relative_to(folder.resolve()):
                found.append(Finding("warning", number, f"{name} leads out of the skill's folder"))
            elif not target.exists():
                found.append(Finding("error", number, f"{name} is not there"))
    return found


# ---- sample prompts
def queries(folder: Path) -> list[Query]:
    """Those of `evals/eval_queries.json`: a list of {"query": text, "should_trigger": true or false}. Raises
    ToolFailure for another form; empty where there is no such file."""
    file = next((folder / name for name in QUERIES if (folder / name).is_file()), None)
    if file is None:
        return []
    try:
        data: Any = json.loads(file.read_bytes())
        return [Query(str(entry["query"]), bool(entry["should_trigger"])) for entry in data]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        form = '[{"query": "…", "should_trigger": true}]'
        raise ToolFailure(f"{file.name} is not a list of the form {form} ({type(error).__name__}).") from error


def _queries(folder: Path) -> list[Finding]:
    try:
        asked = queries(folder)
    except ToolFailure as failure:
        return [Finding("error", 1, str(failure))]
    if sum(q.wanted for q in asked) < 3:
        return [
            Finding("warning", 1, f"fewer than three sample prompts that should choose it; list them in {QUERIES[0]}")
        ]
    return []
