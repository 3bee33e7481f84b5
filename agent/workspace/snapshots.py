"""What files were, in a private git repository beside the user's: their own repository, its index, hooks and settings
are never touched, and a project needs none. Whole folders as trees, single files as blobs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolFailure
from agent.workspace.files import write_file

SECONDS = 20.0  # one git command may take
NEW_FILES = 10_000  # that one tree takes in: some 2 s, measured
NEW_BYTES = 60_000_000
BIG_FILE = 5_000_000  # bytes; a bigger file is left out of trees
FULL = 150_000_000  # bytes of one store; then a new one is begun, and the last but one is deleted
LINK = 0o120000
SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.autocrlf=false",
    "core.safecrlf=false",
    f"core.attributesFile={os.devnull}",
    f"core.excludesFile={os.devnull}",
    "core.bigFileThreshold=1",  # streamed into one pack: 10,000 small files take 2 MB instead of 40
    "core.compression=1",
    "core.fsync=none",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.precomposeUnicode=false",
    "gc.auto=0",
    "advice.addEmbeddedRepo=false",
)
BYTES_AS_THEY_ARE = "* -text -filter -ident -working-tree-encoding -eol\n"


class Uncovered(Exception):
    """Why something cannot be kept; in words for the user, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Saved:
    """`mode`: as stat gives it; of a file in a tree only what git knows. `blob`: the name of its content."""

    mode: int
    blob: str

    def same(self, other: Saved | None) -> bool:
        """Git knows of a mode only whether the file is a link, and whether it can be run."""
        if other is None or self.blob != other.blob:
            return False
        if stat.S_IFMT(self.mode) != stat.S_IFMT(other.mode):
            return False
        return stat.S_IFMT(self.mode) == LINK or bool(self.mode & 0o100) == bool(other.mode & 0o100)


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    before: Saved | None
    after: Saved | None


class Store:
    """`base`: where the store of this project may be. `root`: the project. `keep_out`: folders that are never taken in
    (our own)."""

    def __init__(self, base: Path, root: Path, keep_out: Sequence[Path] = ()) -> None:
        self._base, self._root = base, root
        self._keep_out = keep_out

    def open(self) -> int:
        """The number of the store to write to. Raises Uncovered."""
        if not shutil.which("git"):
            raise Uncovered("git is not installed")
        try:
            self._base.mkdir(parents=True, exist_ok=True, mode=0o700)
            numbers = sorted(int(p.name) for p in self._base.iterdir() if p.name.isdecimal())
            number = numbers[-1] if numbers else 1
            if numbers and _size(self._base / str(number)) > FULL:
                number += 1
                for old in numbers[:-1]:
                    shutil.rmtree(self._base / str(old), ignore_errors=True)
            if not (self._base / str(number) / "HEAD").exists():
                self._git(number, "init", "--quiet")
            return number
        except OSError as error:
            raise Uncovered(f"{self._base} cannot be written ({error.strerror})") from error

    def has(self, number: int) -> bool:
        return (self._base / str(number) / "HEAD").exists()

    # ---- single files
    def save(self, number: int, path: str) -> Saved | None:
        """None where nothing is. Raises Uncovered for what is neither a file nor a link."""
        found = look(path)
        if found is None:
            return None
        state, data = found
        self._git(number, "hash-object", "-w", "--no-filters", "--stdin", feed=data)
        return state

    def put_back(self, number: int, path: str, state: Saved | None) -> None:
        """Raises Uncovered."""
        try:
            if state is None:
                os.unlink(path)
                _drop_empty(Path(path).parent, self._root)
                return
            data = self.content(number, state)
            if stat.S_IFMT(state.mode) == LINK:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                os.symlink(data, os.fsencode(path))
                return
            if os.path.islink(path):
                os.unlink(path)
            write_file(Path(path), data, path)
            now, then = stat.S_IMODE(os.stat(path).st_mode), stat.S_IMODE(state.mode)
            if then not in (0o644, 0o755):  # more than git knows
                os.chmod(path, then)
            elif bool(now & 0o100) != bool(then & 0o100):
                os.chmod(path, now | 0o111 if then & 0o100 else now & ~0o111)
        except (OSError, ToolFailure) as error:
            raise Uncovered(str(error)) from error

    def content(self, number: int, state: Saved) -> bytes:
        """Raises Uncovered."""
        return self._git(number, "cat-file", "blob", state.blob)

    # ---- the whole folder
    def tree(self, number: int) -> tuple[str, tuple[str, ...]]:
        """The name of the folder as it is now, and what it leaves out. Files that .gitignore leaves out are. Raises
        Uncovered where that would take too long or too much."""
        info = self._base / str(number) / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(BYTES_AS_THEY_ARE)
        own = [f"/{p.relative_to(self._root)}/" for p in self._keep_out if p.is_relative_to(self._root)]
        self._exclude(info, own)
        out = self._git(number, "ls-files", "-z", "--others", "--modified", "--exclude-standard")
        names = [os.fsdecode(name) for name in out.split(b"\0") if name]
        left_out = [name for name in names if name.endswith("/")]  # a repository in the project
        sizes = {name: self._bytes_of(name) for name in names if not name.endswith("/")}
        left_out += [name for name, size in sizes.items() if size > BIG_FILE]
        taken = [size for size in sizes.values() if size <= BIG_FILE]
        if len(taken) > NEW_FILES or sum(taken) > NEW_BYTES:
            raise Uncovered(f"the folder is too big ({len(taken):,} files, {sum(taken) // 10**6} MB)")
        if left_out:
            self._exclude(info, [*own, *(f"/{_escaped(name)}" for name in left_out)])
            self._git(number, "update-index", "-z", "--force-remove", "--stdin", feed=_joined(left_out))
        self._git(number, "add", "--all", "--ignore-errors", "--", ".", fails=True)
        return self._git(number, "write-tree").decode().strip(), tuple(left_out)

    def changes(self, number: int, before: str, after: str) -> Iterator[Change]:
        """Raises Uncovered."""
        out = self._git(number, "diff-tree", "-r", "-z", "--no-renames", before, after)
        fields = out.split(b"\0")
        for head, name in zip(fields[0::2], fields[1::2], strict=False):
            was_mode, mode, was, now, _ = head.decode().lstrip(":").split(" ")
            path = os.path.join(self._root, os.fsdecode(name))
            yield Change(path, _state(was_mode, was), _state(mode, now))

    def _exclude(self, info: Path, patterns: Sequence[str]) -> None:
        (info / "exclude").write_bytes(b"".join(os.fsencode(p) + b"\n" for p in patterns))

    def _bytes_of(self, name: str) -> int:
        try:
            return os.lstat(os.path.join(self._root, name)).st_size
        except OSError:
            return 0

    # ---- git
    def _git(self, number: int, *arguments: str, feed: bytes | None = None, fails: bool = False) -> bytes:
        """`fails`: a complaint about single files is no failure."""
        store = self._base / str(number)
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_DIR": str(store), "GIT_WORK_TREE": str(self._root), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_LITERAL_PATHSPECS": "1"}
        flags = [part for setting in SETTINGS for part in ("-c", setting)]
        try:
            with self._lock():
                (store / "index.lock").unlink(missing_ok=True)  # of a git that was killed: ours is the lock
                done = subprocess.run(
                    ["git", *flags, *arguments], cwd=self._root, env=env, input=feed, capture_output=True,
                    timeout=SECONDS, check=False, stdin=subprocess.DEVNULL if feed is None else None,
                )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise Uncovered("it takes too long here") from error
        except OSError as error:
            raise Uncovered(f"git cannot be run ({error.strerror})") from error
        if done.returncode and not fails:
            words = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise Uncovered(f"git says: {words[:200]}")
        return done.stdout

    @contextlib.contextmanager
    def _lock(self) -> Generator[None]:
        """Windows of one project share its store."""
        with open(self._base / "lock", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def look(path: str) -> tuple[Saved, bytes] | None:
    """What is there now. None where nothing is; raises Uncovered for what is neither a file nor a link."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            data = os.fsencode(os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                data = file.read()
        else:
            raise Uncovered(f"{path} is not a plain file")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Uncovered(f"{path} cannot be read ({error.strerror})") from error
    name = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return Saved(status.st_mode, name), data


def _state(mode: str, blob: str) -> Saved | None:
    if not int(mode, 8):
        return None
    number = int(mode, 8)
    return Saved(number if stat.S_IFMT(number) == LINK else stat.S_IFREG | stat.S_IMODE(number), blob)


def _drop_empty(folder: Path, root: Path) -> None:
    with contextlib.suppress(OSError):
        while folder != root and folder.is_relative_to(root):
            folder.rmdir()
            folder = folder.parent


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _escaped(name: str) -> str:
    return "".join(f"\\{c}" if c in "\\*?[ !#" else c for c in name)


def _joined(names: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(name) + b"\0" for name in names)
