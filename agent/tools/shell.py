"""What one command leaves to the next: the folder and what is exported. Knows how bash is asked for it, and what keeps
programs from waiting for somebody at a keyboard; runs nothing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from agent.tools.job import MARK
from agent.tools.terminal import STATE_NAME

# A program that is not there, so that whoever calls it fails at once and says this word.
_NO_EDITOR = "no-editor-here--give-the-text-on-the-command-line"
# What makes programs go on without a question, and not draw for a person.
UNATTENDED: Mapping[str, str] = {
    "CI": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "EDITOR": _NO_EDITOR,
    "VISUAL": _NO_EDITOR,
    "GIT_EDITOR": _NO_EDITOR,
    "GIT_SEQUENCE_EDITOR": _NO_EDITOR,
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_yes": "true",
    "npm_config_update_notifier": "false",
    "COMPOSER_NO_INTERACTION": "1",
    "YARN_ENABLE_IMMUTABLE_INSTALLS": "0",  # under CI, yarn would refuse to take in what package.json has got
}
_NOT_PASSED_ON = {
    *("FORCE_COLOR", "CLICOLOR_FORCE"),  # would overrule NO_COLOR
    # where git lets a hook work: started in one, we would otherwise change that repository from any folder
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"),
}
# What makes a program that only looks run another one, load code, or go by somebody else's settings.
_STEERING = re.compile(
    r"LD_|GIT_|BAT_|(?:BASH_ENV|ENV|HOME|XDG_CONFIG_HOME|XDG_CONFIG_DIRS|PAGER|LESSOPEN|LESSCLOSE|GCONV_PATH"
    r"|RIPGREP_CONFIG_PATH|MAGIC|CDPATH)\Z"
)
_OURS = ("DFLASH_BASH_ENV", STATE_NAME, MARK, "_", "SHLVL")
_DECLARED = re.compile(
    rb"declare -[A-Za-z]*x[A-Za-z]* ([A-Za-z_][A-Za-z0-9_]*)"
    rb"(?:=(?:\"((?:[^\"\\]|\\.)*)\"|\$'((?:[^'\\]|\\.)*)'))?\n",
    re.S,
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.S)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"} | {
    b"e": b"\x1b",
    b"E": b"\x1b",
}


def prelude() -> Path:
    """What bash reads before each command."""
    return Path(str(resources.files("agent") / "tools" / "prelude.sh"))


@dataclass(frozen=True, slots=True)
class Left:
    """What a command left: its exit status as the shell itself knew it, the folder, what is exported."""

    status: int
    folder: str
    exported: Mapping[str, str]


class Shell:
    """`folder` and `env` of the next command. `root`: where it starts, and goes back to when its folder is gone."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.root = self.folder = root
        kept = {k: v for k, v in env.items() if not k.startswith("DFLASH_SERVER_KEY") and k not in _NOT_PASSED_ON}
        self._first: Mapping[str, str] = {**kept, **UNATTENDED}
        self._env = self._first
        self._bash = shutil.which("bash", path=env.get("PATH")) or "/bin/bash"  # a command may well lose its PATH
        self._prelude = re.sub(r"([\\$`])", r"\\\1", str(prelude()))  # bash expands what is in BASH_ENV

    def argv(self, command: str) -> Sequence[str]:
        return (self._bash, "-c", command, "bash")

    def env(self) -> dict[str, str]:
        env = {**self._env, "BASH_ENV": self._prelude}
        if own := self._env.get("BASH_ENV"):
            env["DFLASH_BASH_ENV"] = own
        return env

    @property
    def standing(self) -> Path:
        """Where the next command will run."""
        return self.folder if self.folder.is_dir() else self.root

    def lost_folder(self) -> Path | None:
        """The folder, where it is no longer there; the next command then runs in the root."""
        if self.folder.is_dir():
            return None
        lost, self.folder = self.folder, self.root
        return lost

    def means_the_same(self, name: str) -> bool:
        """Does the command `name` still run what it ran before anything was exported? An environment that puts its own
        programs in front, as a virtual one does, changes nothing for the rest."""
        now, first = self._env, self._first
        changed = {k for k in now.keys() | first.keys() if now.get(k) != first.get(k)}
        if any(_STEERING.match(k) for k in changed):
            return False
        path = now.get("PATH", os.defpath)
        if "PATH" not in changed:
            return True
        absolute = all(os.path.isabs(folder) for folder in path.split(os.pathsep))
        return absolute and shutil.which(name, path=path) == shutil.which(name, path=first.get("PATH", os.defpath))

    def forget_variables(self) -> None:
        self._env = self._first

    def learn(self, left: Left) -> None:
        strange = {k: v for k, v in self._env.items() if not k.isidentifier() or k in _OURS}
        self._env = {**{k: v for k, v in left.exported.items() if k not in _OURS}, **strange}
        if left.folder:
            self.folder = Path(left.folder)


def read_left(state: bytes) -> Left | None:
    """None where the command gave no word: it was killed, replaced its shell, or has an exit trap of its own."""
    status, folder, exported = [*state.split(b"\0", 2), b"", b""][:3]
    if not status.isdigit():
        return None
    variables = {
        os.fsdecode(name): os.fsdecode(_plain(plain) if plain is not None else _unescaped(odd or b""))
        for name, plain, odd in (
            (m[1], m[2] if m[2] is not None else None, m[3])
            for m in _DECLARED.finditer(exported)
            if m[2] is not None or m[3] is not None
        )
    }
    return Left(int(status), os.fsdecode(folder.removesuffix(b"\n")), variables)


def _plain(text: bytes) -> bytes:
    return re.sub(rb'\\([\\"$`])', rb"\1", text)


def _unescaped(text: bytes) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = match.groups()
        if octal:
            return bytes([int(octal, 8) & 255])
        if hexadecimal:
            return bytes([int(hexadecimal, 16)])
        return _LETTERS.get(letter, letter)

    return _ESCAPE.sub(one, text)
