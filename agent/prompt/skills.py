"""Which skills there are: folders with a SKILL.md, from the project, the user and the product. Finds and reads them,
and says what is odd; what happens when one is used is `activation`'s."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from agent.config.trust import Thing, Trust, digest_of_files
from agent.errors import ToolFailure
from agent.prompt.frontmatter import Page, read_page
from agent.workspace.files import read_file

Scope: TypeAlias = Literal["project", "user", "bundled"]

FILE = "SKILL.md"
PROJECT_PLACES = (".dflash/skills", ".agents/skills", ".claude/skills")
USER_PLACES = (".agents/skills", ".claude/skills")  # below the home folder, after the user's own configuration
PASSED_OVER = frozenset((".git", "node_modules", "__pycache__", ".venv", "venv"))
DEPTH = 4  # folders below a root: collections group their skills, packages inside a skill lie deeper
FOLDERS = 2000  # looked at below one root; a root is no place for a source tree
ENTRIES = 20_000  # of one folder
FILE_LIMIT = 1_000_000  # bytes of a SKILL.md; the specification advises 500 lines
TRUSTED_FILES, TRUSTED_BYTES = 500, 2_000_000  # of one skill that count for its trust: more is data, not instructions

NAME, DESCRIPTION = 64, 1024  # characters, from the specification
_PIECE = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|\n|[^\sA-Za-z\d]")
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Note:
    """Something odd about one file; it was used all the same where that was possible."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{_shown(self.file)}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Skill:
    """`name` is what the model and the user say: a word of letters, digits and hyphens. `for_model`: it is offered to
    the model; `for_user`: as a slash command. `hint`: how its arguments are written. `allowed`: the tools it keeps to,
    as its file names them; empty for all."""

    name: str
    description: str
    file: Path
    scope: Scope
    for_model: bool = True
    for_user: bool = True
    hint: str = ""
    allowed: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.file.parent


@dataclass(frozen=True, slots=True)
class Found:
    """`skills`: those that count, nearest first, each name once. `hidden`: (skill, the one that hides it).
    `untrusted`: of a project that nobody has trusted; they do not count and hide nothing."""

    skills: tuple[Skill, ...] = ()
    hidden: tuple[tuple[Skill, Skill], ...] = ()
    untrusted: tuple[Skill, ...] = ()
    notes: tuple[Note, ...] = ()

    def find(self, name: str) -> Skill | None:
        wanted = slug(name)
        return next((s for s in self.skills if s.name == wanted), None)


@dataclass(frozen=True, slots=True)
class Root:
    folder: Path
    scope: Scope


def roots(folder: Path, config: Path, home: Path | None, bundled: Path | None) -> tuple[Root, ...]:
    """Where skills are looked for, nearest first."""
    users = [config / "skills", *(home / place for place in USER_PLACES if home)]
    return (*places(folder, PROJECT_PLACES, users), *([Root(bundled, "bundled")] if bundled else ()))


def places(folder: Path, names: Sequence[str], users: Sequence[Path]) -> tuple[Root, ...]:
    """`names` from `folder` up to the top of its repository, then the user's. A place that belongs to the user is the
    user's also where the project lies in the home folder."""
    chain = [folder, *folder.parents]
    top = next((n for n, parent in enumerate(chain) if os.path.exists(parent / ".git")), 0)
    here = [parent / name for parent in chain[: top + 1] for name in names]
    return (*(Root(p, "project") for p in here if p not in users), *(Root(p, "user") for p in users))


def discover(searched: Iterable[Root], trust: Trust) -> Found:
    """Reads each SKILL.md below `searched`. Never raises: what cannot be read becomes a note."""
    named: dict[str, Skill] = {}
    hidden: list[tuple[Skill, Skill]] = []
    untrusted: list[Skill] = []
    notes: list[Note] = []
    seen: set[str] = set()  # real files: two places may be the same one under two names
    for root in searched:
        for file in _skill_files(root.folder, notes):
            real = os.path.realpath(file)
            if real in seen:
                continue
            seen.add(real)
            skill = read_skill(file, root.scope, notes)
            if skill is None:
                continue
            if root.scope == "project" and not trust.allows(thing_of(skill)):
                untrusted.append(skill)
            elif skill.name in named:
                hidden.append((skill, named[skill.name]))
            else:
                named[skill.name] = skill
    return Found(tuple(named.values()), tuple(hidden), tuple(untrusted), tuple(notes))


def _skill_files(root: Path, notes: list[Note]) -> Iterator[Path]:
    """Folder by folder, names in order. What lies below a skill is the skill's own. Links are followed once."""
    level = [root]
    visited: set[tuple[int, int]] = set()
    for depth in range(DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            if len(visited) >= FOLDERS:
                notes.append(Note(root, 1, f"more than {FOLDERS} folders; the rest was not looked at"))
                return
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in visited:
                    continue
                visited.add((status.st_dev, status.st_ino))
                names, folders = _listed(folder)
            except OSError as error:
                if folder != root:
                    notes.append(Note(folder, 1, f"cannot be looked at: {error.strerror}"))
                continue
            if FILE in names:
                if depth:
                    yield folder / FILE
                    continue
                notes.append(Note(root / FILE, 1, "not used: a skill needs a folder of its own"))
            elif depth and (other := next((n for n in names if n.lower() == FILE.lower()), None)):
                notes.append(Note(folder / other, 1, f"not used: the file must be called {FILE}"))
            below += (folder / name for name in sorted(folders) if name not in PASSED_OVER)
        level = below


def _listed(folder: Path) -> tuple[set[str], list[str]]:
    """Names of what is no folder but could be a SKILL.md, and names of folders. A broken link is neither."""
    names: set[str] = set()
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= ENTRIES:
                break
            try:
                if entry.is_dir():
                    folders.append(entry.name)
                elif len(entry.name) == len(FILE) and entry.name.lower() == FILE.lower():
                    names.add(entry.name)
            except OSError:  # a loop of links
                continue
    return names, folders


def thing_of(skill: Skill) -> Thing:
    """What is trusted: the whole folder, since the text of a skill has its other files read and run."""
    files: list[Path] = []
    for place, folders, names in os.walk(skill.folder):
        folders[:] = sorted(f for f in folders if f not in PASSED_OVER)
        files += (Path(place, name) for name in sorted(names))
        if len(files) > TRUSTED_FILES:
            break
    plain = [f for f in files[:TRUSTED_FILES] if f.is_file() and f.stat().st_size <= TRUSTED_BYTES]
    return Thing(skill.folder, digest_of_files(plain))


# ---- one file
def load_page(file: Path) -> Page:
    """Raises ToolFailure in one sentence; a file that went away is one too."""
    try:
        if os.path.getsize(file) > FILE_LIMIT:
            raise ToolFailure(f"{_shown(file)} is too large for a skill ({os.path.getsize(file) // 1000} kB).")
        content = read_file(file, _shown(file))
    except OSError as error:
        raise ToolFailure(f"{_shown(file)} cannot be read: {error.strerror}.") from error
    if content.text is None:
        raise ToolFailure(f"{_shown(file)} is binary, not text.")
    return read_page(content.data)


def read_skill(file: Path, scope: Scope, notes: list[Note]) -> Skill | None:
    """None, with a note, for what cannot be a skill: no description, or not readable."""
    try:
        page = load_page(file)
    except ToolFailure as failure:
        notes.append(Note(file, 1, f"left out: {failure}"))
        return None
    notes += (Note(file, fault.line, fault.text) for fault in page.faults)
    description = page.text("description")
    if not description:
        why = "it has no description" if page.fenced else "it has no front matter (--- name and description ---)"
        notes.append(Note(file, page.line_of("description"), f"left out: {why}"))
        return None
    name, odd = _name(page, file)
    notes += (Note(file, page.line_of("name"), text) for text in odd)
    if len(description) > DESCRIPTION:
        notes.append(Note(file, page.line_of("description"), f"the description has more than {DESCRIPTION} characters"))
    return Skill(
        name,
        description,
        file,
        scope,
        for_model=not flag(page, "disable-model-invocation", False),
        for_user=flag(page, "user-invocable", True),
        hint=page.text("argument-hint"),
        allowed=tool_names(page.fields.get("allowed-tools")),
    )


def _name(page: Page, file: Path) -> tuple[str, list[str]]:
    """The name as it can be said, and what was odd about the one in the file."""
    folder, written = file.parent.name, page.text("name")
    name = slug(written) or slug(folder) or "skill"
    if not written:
        return name, [f"it has no name; it is called {name} after its folder"]
    if faults := name_faults(written):
        return name, [f"the name {_quote(written)} {faults[0]}; it is called {name}"]
    if not same_name(written, folder):
        return name, [f"the name {_quote(written)} is not that of its folder, {_quote(folder)}"]
    return name, []


def name_faults(name: str) -> list[str]:
    """What the specification has against a name; empty when it is right."""
    name = unicodedata.normalize("NFKC", name)
    faults: list[str] = []
    if not name:
        faults.append("is empty")
    if len(name) > NAME:
        faults.append(f"has more than {NAME} characters")
    if name != name.lower():
        faults.append("has capitals")
    if any(not (c.isalnum() or c == "-") for c in name):
        faults.append("may have letters, digits and hyphens only")
    if name.startswith("-") or name.endswith("-"):
        faults.append("begins or ends with a hyphen")
    if "--" in name:
        faults.append("has two hyphens in a row")
    return faults


def same_name(one: str, other: str) -> bool:
    return unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other)


def slug(name: str) -> str:
    """Any name as one that fits the rules; empty where nothing of it can stay."""
    letters = "".join(c if c.isalnum() else "-" for c in unicodedata.normalize("NFKC", name).lower())
    return re.sub("-+", "-", letters).strip("-")[:NAME].strip("-")


def flag(page: Page, key: str, default: bool) -> bool:
    value = page.text(key).lower()
    return True if value in _TRUE else False if value in _FALSE else default


def tool_names(value: Any) -> tuple[str, ...]:
    """`Bash(git:*) Read`, the same with commas, or a list of them."""
    if isinstance(value, list):
        return tuple(t for item in cast("list[Any]", value) for t in tool_names(item))
    if not isinstance(value, str):
        return ()
    return tuple(re.findall(r"[^\s,()]+(?:\([^()]*\))?", value))


# ---- the catalogue
def catalogue(skills: Sequence[Skill], limit: int) -> str:
    """A line a skill for the system prompt, in at most `limit` tokens: long descriptions are shortened first, then only
    names are given, then the rest is counted. Empty where there is nothing to offer."""
    offered = [s for s in skills if s.for_model]
    if not offered:
        return ""
    for width in (DESCRIPTION, 300, 200, 150, 110, 80, 60):
        text = "\n".join(_line(s, width) for s in offered)
        if tokens(text) <= limit:
            return text
    shown = len(offered)
    while shown and tokens(_short(offered, shown)) > limit:
        shown -= max(1, shown // 16)
    return _short(offered, shown)


def tokens(text: str) -> int:
    """Rather too many than too few: a name such as `a-17` is four of them, and an unusual letter one by itself."""
    return len(_PIECE.findall(text))


def _line(skill: Skill, width: int) -> str:
    return f"- {skill.name}: {_cut(skill.description, width)}"


def _short(skills: Sequence[Skill], shown: int) -> str:
    names = ", ".join(s.name for s in skills[:shown])
    if shown == len(skills):
        return f"- {names}"
    more = f"{len(skills) - shown}{' more' if shown else ' skills'}: call skill with a word of your task to find one"
    return f"- {names}\n- {more}" if shown else f"- {more}"


def matching(skills: Sequence[Skill], words: str) -> list[Skill]:
    """Skills whose name or description has some of `words`, best first."""
    wanted = {w for w in re.findall(r"\w+", words.lower()) if len(w) > 2 or w.isdecimal()}
    scored = [(sum(_score(w, s) for w in wanted), s) for s in skills]
    return [s for score, s in sorted(scored, key=lambda pair: -pair[0]) if score]


def _score(word: str, skill: Skill) -> int:
    """A whole word counts twice, one in the name twice again."""
    about = skill.description.lower()
    in_name = (word in skill.name) + (word in skill.name.split("-"))
    return 2 * in_name + (word in about) + (word in re.findall(r"\w+", about))


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    end = text.rfind(" ", 0, width)
    return text[: end if end > width // 2 else width].rstrip(" ,;:.") + "…"


def _quote(name: str) -> str:
    return f"“{_cut(name, 80)}”"


def _shown(path: Path) -> str:
    """A name on disk may hold bytes that are no text, and line ends."""
    return "".join(c if c.isprintable() else "?" for c in str(path).encode("utf-8", "replace").decode())
