"""What a call touches, in the terms that permission rules speak of."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from pathlib import Path

from agent.protocols import Access, Plan
from agent.tools import harmless
from agent.tools.splitting import Part, Script, Word, split
from agent.workspace.gitfolder import runs_programs
from agent.workspace.paths import Workspace

EXPANDED = 500  # names that one pattern of a command is expanded to
NOWHERE = re.compile(r"/dev/(?:null|stdout|stderr|stdin|tty|zero|full|fd/\d+)\Z")
_ATTACHED = re.compile(r"(?:--?[\w-]+=@?|-[A-Za-z]@?|@|(?:[^\s:]*:)+)(.+)", re.DOTALL)
_LEFT_OUT = re.compile(r"--(?:exclude(?:-dir|-from)?|ignore|glob|iglob)(?:=|\Z)")
_NEVER_READ = (("git", "rm"), ("git", "check-ignore"), ("git", "ls-files"), ("git", "status"))


def command_plan(
    command: str, cwd: Path, workspace: Workspace, known: Callable[[str], bool] = lambda name: True
) -> Plan:
    """The plan of a shell line that runs in `cwd`; `known`: does a command of that name run what everybody expects?
    Looks on disk only where the line has patterns, or git would go by a configuration there."""
    script = split(command, str(cwd), os.path.expanduser("~"))
    view = _View(workspace, known)
    accesses: list[Access] = []
    for part in script.parts:
        accesses += view.part(part)
    accesses += view.redirects(script)
    title = command.strip().split("\n", 1)[0]
    return Plan("execute", title, command=command, accesses=tuple(dict.fromkeys(accesses)), unclear=script.unclear)


class _View:
    def __init__(self, workspace: Workspace, known: Callable[[str], bool]) -> None:
        self._workspace = workspace
        self._known = known
        self._temporary = tuple(Path(os.path.realpath(p)) for p in ("/tmp", "/var/tmp", tempfile.gettempdir()))

    def part(self, part: Part) -> Iterator[Access]:
        name, texts = part.name, part.texts
        paths = list(self._paths(part))
        looks = part.fixed and not part.assigned and part.cwd is not None and harmless.only_looks(texts)
        looks = looks and all(self._workspace.readable(p) for p, word in paths if word or os.path.lexists(p))
        plain = " ".join(texts)
        forms = (plain, " ".join((name, *texts[1:])), *part.carried)
        known = self._known(name)
        looks = looks and not part.through and known
        if looks and name == "git":
            looks = not any(map(runs_programs, map(Path, filter(None, (part.cwd, *part.cwds)))))
        yield Access("run", part.raw, forms, harmless=looks, through=part.through and (known or part.assigned))
        reads = name not in harmless.SILENT and (name, *texts[1:2]) not in _NEVER_READ
        for path, is_word in paths:
            real = self._workspace.real(path)
            if reads:
                yield Access("read", str(real), (str(path),), through=True)
            # a patch of a start-up file or a hook runs later; only what certainly looks may name them unasked
            if is_word and not looks and name not in ("source", ".", "git") and self._workspace.protected(path):
                yield Access("edit", str(real), (str(path),), outside=True)

    def _paths(self, part: Part) -> Iterator[tuple[Path, bool]]:
        """Absolute paths that the words may mean, and whether the whole word means it."""
        folders = [Path(part.cwd) if part.cwd is not None else self._workspace.root, *map(Path, sorted(part.cwds))]
        for cwd, word in product(folders, _meant(part)):
            if word.glob:
                found = glob.iglob(word.text, root_dir=cwd, include_hidden=False, recursive=True)
                yield from ((cwd / name, True) for name in islice(found, EXPANDED))
            yield cwd / word.text, True
            if attached := _ATTACHED.match(word.text):
                yield cwd / os.path.expanduser(attached[1]), False

    def redirects(self, script: Script) -> Iterator[Access]:
        for word, cwd in script.reads:
            path = Path(cwd or self._workspace.root) / word.text
            outside = not self._workspace.readable(path) and not NOWHERE.match(word.text)
            real = str(self._workspace.real(path))
            yield Access("read", real, (str(path),), outside=outside, through=not outside)
        for word, cwd in script.writes:
            path = Path(cwd or self._workspace.root) / word.text
            if not NOWHERE.match(word.text):
                yield Access("edit", str(self._workspace.real(path)), (str(path),), outside=self._guarded(path, cwd))

    def _guarded(self, path: Path, cwd: str | None) -> bool:
        if cwd is None and not path.is_absolute():
            return True
        if self._workspace.protected(path):
            return True
        real = self._workspace.real(path)
        return self._workspace.beyond(path) and not any(real.is_relative_to(t) for t in self._temporary)


def _meant(part: Part) -> Sequence[Word]:
    """Words that may be files: not the command, not what is looked for, not what is left out."""
    words = list(part.words[1:])
    if part.name == "find":
        while words and re.match(r"-(?:[HLP]|O\d*|D)\Z", words[0].text):
            words = words[2 if words[0].text == "-D" else 1 :]
        stop = next((n for n, w in enumerate(words) if w.text[:1] in ("-", "(", "!")), len(words))
        return [w for w in words[:stop] if w.text]
    if part.name in ("echo", "printf"):
        return []
    given = any(
        re.match(r"-[A-Za-z]*e|--(?:reg|exp|files\Z)", w.text) for w in words
    )  # then no other word is the expression
    if part.name in harmless.EXPRESSIONS and part.name not in ("[", "test") and not given:
        first = next((n for n, w in enumerate(words) if not w.text.startswith("-")), None)
        words = [w for n, w in enumerate(words) if n != first]
    kept: list[Word] = []
    skip = ended = False
    for word in words:
        ended = ended or word.text == "--"
        if skip:
            skip = False
        elif not ended and part.name in harmless.LEAVES_OUT and _LEFT_OUT.match(word.text):
            skip = "=" not in word.text
        elif word.text and "\n" not in word.text and len(word.text) < 1000:
            kept.append(word)
    return kept
