"""`dflash-agent skill`: skills seen, made and checked from outside of any conversation."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.config.trust import Trust
from agent.errors import AgentError, ConfigError
from agent.prompt.authoring import new_skill
from agent.prompt.check import Query, check_skill, queries
from agent.prompt.custom import command_roots, find_commands
from agent.prompt.overview import overview
from agent.prompt.skills import FILE, Found, Root, Skill, discover, slug
from agent.speech import harmless, tell

OK, FAILED = 0, 1
PASSED = 2 / 3  # of the sample prompts

Choose = Callable[[Path, str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Place:
    """`folder`: where the user stands. `config`: the user's own files. `home` None: there is none."""

    folder: Path
    config: Path
    home: Path | None


def run(
    arguments: argparse.Namespace, place: Place, searched: Sequence[Root], trust: Trust, choose: Choose | None
) -> int:
    """The exit status. `choose` says which skill a model chooses for a prompt, given one more skill folder; None: there
    is no engine to ask. Raises AgentError."""
    match arguments.verb:
        case "new":
            return _new(arguments, place)
        case "check":
            return asyncio.run(_check(arguments.skill, discover(searched, _all()), choose, arguments.timeout))
        case "show":
            return _show(arguments.name, discover(searched, _all()))
        case _:
            return _list(discover(searched, trust), place, trust, as_json=arguments.json)


def _all() -> Trust:
    """To look at a skill is not to follow it."""
    return Trust(Path(os.devnull), everything=True)


def _list(found: Found, place: Place, trust: Trust, *, as_json: bool) -> int:
    customs = find_commands(command_roots(place.folder, place.config, place.home), trust)
    if not as_json:
        _say(overview(found, customs))
        return OK

    def entry(skill: Skill, status: str) -> dict[str, str]:
        about = {"name": skill.name, "description": skill.description, "file": str(skill.file)}
        return {**about, "scope": skill.scope, "status": status}

    skills = [
        *(entry(s, "used") for s in found.skills),
        *(entry(s, "hidden") for s, _ in found.hidden),
        *(entry(s, "untrusted") for s in found.untrusted),
    ]
    notes = [{"file": str(n.file), "line": n.line, "text": n.text} for n in (*found.notes, *customs.notes)]
    commands = [{"name": c.name, "summary": c.summary, "file": str(c.file)} for c in customs.commands]
    _say(json.dumps({"skills": skills, "commands": commands, "notes": notes}, indent=2))
    return OK


def _show(name: str, found: Found) -> int:
    skill = _named(name, found)
    _say(f"{skill.file} ({skill.scope})\n")
    _say(skill.file.read_bytes().decode("utf-8-sig", "replace"))
    return OK


def _new(arguments: argparse.Namespace, place: Place) -> int:
    base = place.config if arguments.user else place.folder / ".dflash"
    folder = new_skill(base / "skills", arguments.name, arguments.description or "")
    _say(f"Made {folder / FILE}.\nWrite its steps, then: dflash-agent skill check {arguments.name}")
    if not arguments.user:
        _say("It counts in this folder once you trust it: /skills trust in the screen, or --trust.")
    return OK


async def _check(names: Sequence[str], found: Found, choose: Choose | None, limit: float) -> int:
    """Folders or names; without any, all but the bundled ones."""
    folders = [_folder_of(name, found) for name in names]
    if not folders:
        folders = [s.folder for s in found.skills if s.scope != "bundled"]
    if not folders:
        _say("There is no skill to check here. Make one: dflash-agent skill new NAME")
        return OK
    failed = 0
    for folder in folders:
        findings = check_skill(folder)
        for finding in findings:
            _say(f"{folder / FILE}:{finding.line}: {finding.level}: {finding.text}")
        bad = any(f.level == "error" for f in findings)
        if not bad:
            bad = not await _try(folder, choose, limit)
        failed += bad
        _say(f"{folder.resolve().name}: {'failed' if bad else 'good' if not findings else 'works'}")
    return FAILED if failed else OK


async def _try(folder: Path, choose: Choose | None, limit: float) -> bool:
    """Does a model choose it for its sample prompts? True too where there is no model to ask. `limit`: seconds for each
    prompt; where one has no answer the rest is not asked."""
    asked = queries(folder)
    if choose is None or not asked:
        why = "no engine runs (start one, or name one with --server URL)" if asked else "it has no sample prompts"
        _say(f"{folder.resolve().name}: not tried with a model: {why}")
        return True
    right = 0
    for number, query in enumerate(asked, 1):
        tell(f"asking the model, {number} of {len(asked)}: {query.text}")
        try:
            async with asyncio.timeout(limit):
                chosen = await choose(folder, query.text)
        except TimeoutError:
            name, longer = folder.resolve().name, f"within {limit:g} s; --timeout SECONDS gives it longer"
            _say(f"{name}: the model gave no answer to prompt {number} of {len(asked)} {longer}")
            return False
        right += _told(query, chosen, slug(folder.resolve().name))
    _say(f"{folder.resolve().name}: the model chose rightly for {right} of {len(asked)} sample prompts")
    return right >= PASSED * len(asked)


def _told(query: Query, chosen: str, name: str) -> bool:
    right = (chosen == name) == query.wanted
    if not right:
        what = f"chose {chosen}" if chosen else "chose no skill"
        _say(f"  {what}, {'should' if query.wanted else 'should not'} choose this one: {query.text}")
    return right


def _folder_of(name: str, found: Found) -> Path:
    path = Path(name)
    if path.name == FILE and path.is_file():
        return path.parent
    return path if path.is_dir() and (os.sep in name or not found.find(name)) else _named(name, found).folder


def _named(name: str, found: Found) -> Skill:
    skill = found.find(name)
    if skill is None:
        known = ", ".join(s.name for s in found.skills) or "none"
        raise ConfigError(f"There is no skill named {name!r}. There are: {known}.")
    return skill


def _say(text: str) -> None:
    try:
        print(harmless(text), flush=True)
    except UnicodeEncodeError:
        print(harmless(text).encode("ascii", "replace").decode(), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AgentError(f"Cannot write to standard output: {error.strerror}.") from error
