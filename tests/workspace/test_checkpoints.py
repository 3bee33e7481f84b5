"""Undo and redo of what turns did to files, with the real git and real files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent.errors import AgentError
from agent.workspace import snapshots
from agent.workspace.checkpoints import Checkpoints, place_of


class Place:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "project"
        self.root.mkdir()
        self.data = base / "data"
        self.again()

    def again(self, trees: str = "") -> None:
        """As after a restart."""
        self.points = Checkpoints(place_of(self.data, self.root), self.root, "s1", (self.data,), trees)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def edit(self, turn: int, name: str, text: str) -> None:
        await self.points.before(turn, [str(self.root / name)], whole=False)
        self.write(name, text)

    async def command(self, turn: int, line: str) -> str:
        note = await self.points.before(turn, [], whole=True)
        subprocess.run(["bash", "-c", line], cwd=self.root, check=True)
        return note

    def files(self) -> dict[str, str]:
        return {
            str(p.relative_to(self.root)): p.read_text(errors="replace")
            for p in sorted(self.root.rglob("*"))
            if p.is_file() and ".git" not in p.parts
        }


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


async def test_an_edit_a_new_file_and_a_deleted_one_are_undone_and_done_again(place: Place) -> None:
    place.write("a.txt", "one\n")
    place.write("gone.txt", "here\n").chmod(0o600)
    before = place.files()
    await place.edit(1, "a.txt", "two\n")
    await place.edit(1, "new/deep/b.txt", "b\n")
    await place.command(1, "rm gone.txt; echo c > c.txt; chmod +x a.txt")
    await place.points.after(1)
    after = place.files()
    place.again()
    done = await place.points.undo()
    assert set(done.paths) == {"a.txt", "c.txt", "gone.txt", "new/deep/b.txt"}
    assert place.files() == before
    assert not (place.root / "new").exists()
    assert not os.access(place.root / "a.txt", os.X_OK)
    await place.points.redo()
    assert place.files() == after
    assert os.access(place.root / "a.txt", os.X_OK)
    with pytest.raises(AgentError, match="Nothing to redo"):
        await place.points.redo()


@pytest.mark.parametrize(
    "line",
    ["rm -r d; echo f > d", "mv d e; ln -s e d", "rm f; mkdir f; echo x > f/x", "mv l k; mkdir l; echo x > l/x"],
    ids=["folder to file", "folder to link", "file to folder", "link to folder"],
)
async def test_what_changed_its_kind_is_undone_and_done_again(place: Place, line: str) -> None:
    place.write("d/one/a.txt", "a\n")
    place.write("f", "f\n")
    (place.root / "l").symlink_to("f")

    def found() -> dict[str, str]:
        kinds = {str(p.relative_to(place.root)): os.readlink(p) for p in place.root.rglob("*") if p.is_symlink()}
        return {**place.files(), **kinds}

    before = found()
    await place.command(1, line)
    await place.points.after(1)
    after = found()
    assert not (await place.points.undo()).kept
    assert found() == before
    assert not (await place.points.redo()).kept
    assert found() == after


async def test_turns_are_undone_one_by_one_and_a_new_change_forgets_what_was_undone(place: Place) -> None:
    for turn, text in enumerate(("1", "2", "3"), 1):
        await place.edit(turn, "a", text)
        await place.points.after(turn)
    assert place.points.last() == (3, ["a"])
    await place.points.undo()
    await place.points.undo()
    assert place.files() == {"a": "1"}
    await place.points.redo()
    assert place.files() == {"a": "2"}
    await place.edit(4, "a", "4")
    await place.points.after(4)
    with pytest.raises(AgentError, match="Nothing to redo"):
        await place.points.redo()
    await place.points.undo()
    assert place.files() == {"a": "2"}


async def test_what_someone_changed_since_is_left_alone_and_named(place: Place) -> None:
    await place.edit(1, "a", "agent\n")
    await place.edit(1, "b", "agent\n")
    await place.points.after(1)
    place.write("a", "user\n")
    done = await place.points.undo()
    assert (done.paths, done.kept) == (("b",), ("a",))
    assert place.files() == {"a": "user\n"}


async def test_a_turn_that_changed_nothing_is_no_turn_to_undo(place: Place) -> None:
    place.write("a", "1")
    await place.command(1, "cat a")
    await place.points.after(1)
    with pytest.raises(AgentError, match="Nothing to undo"):
        await place.points.undo()


async def test_the_first_state_of_a_file_counts_whether_edit_or_command_came_first(place: Place) -> None:
    place.write("a", "0")
    place.write("b", "0")
    await place.edit(1, "a", "1")
    await place.command(1, "echo 2 > a; echo 2 > b")
    await place.edit(1, "b", "3")
    await place.points.after(1)
    await place.points.undo()
    assert place.files() == {"a": "0", "b": "0"}


async def test_links_odd_names_and_bytes_are_kept_and_ignored_files_only_where_they_were_edited(place: Place) -> None:
    names = ["-q'uo\"te\nn.txt", "ü b.txt", "x[1]*.txt"]
    for name in names:
        place.write(name, "1\r\n\x00")
    place.write(".gitattributes", "* text=auto eol=lf\n*.txt filter=evil\n")
    place.write(".gitignore", "build/\n.env\n")
    place.write("build/x", "1")
    place.write(".env", "KEY=1\n")
    (place.root / "link").symlink_to("nowhere")
    before = place.files()
    await place.command(1, 'for f in *.txt ./-*; do echo 2 >> "$f"; done; rm link; ln -s else link; echo 2 > build/x')
    await place.edit(1, ".env", "KEY=2\n")
    await place.points.after(1)
    await place.points.undo()
    assert place.files() == {**before, "build/x": "2\n"}
    assert os.readlink(place.root / "link") == "nowhere"


async def test_the_users_own_repository_is_untouched(place: Place) -> None:
    def git(line: str) -> str:
        env = {**os.environ, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t",
               "GIT_COMMITTER_EMAIL": "t@t"}  # fmt: skip
        return subprocess.run(
            ["bash", "-ec", line], cwd=place.root, env=env, capture_output=True, text=True, check=True
        ).stdout

    state = "git rev-parse HEAD; git for-each-ref; git ls-files -s; git stash list; git diff; git diff --cached"
    git("git init -q; printf '1\\n2\\n' > a; git add a; git commit -qm 1; echo staged >> a; git add a; echo loose >> a")
    hook = place.root / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\necho x >> {place.base}/hook.log\n")
    hook.chmod(0o755)
    before, files = git(state), place.files()
    await place.edit(1, "a", "agent\n")
    await place.command(1, "echo c > c")
    await place.points.after(1)
    await place.points.undo()
    assert place.files() == files
    assert git(state) == before
    assert not (place.base / "hook.log").exists()


async def test_a_repository_in_the_project_is_named_as_left_out_but_edits_in_it_are_undone(place: Place) -> None:
    subprocess.run(["git", "init", "-q", "inner"], cwd=place.root, check=True)
    subprocess.run(["git", "init", "-q", "void"], cwd=place.root, check=True)
    place.write("inner/a", "1")
    place.write("b", "1")
    await place.edit(1, "inner/a", "2")
    await place.command(1, "echo 2 > b; echo 3 > inner/c")
    await place.points.after(1)
    done = await place.points.undo()
    assert set(done.paths) == {"b", "inner/a"}
    assert set(done.left_out) == {"inner/", "void/"}
    assert (place.root / "inner/c").exists()


async def test_a_big_file_is_left_out_and_a_folder_that_is_too_big_is_told_before_the_first_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.root / "big").write_bytes(b"x" * (snapshots.BIG_FILE + 1))
    assert await place.command(1, "echo 1 > a") == ""
    await place.points.after(1)
    assert (await place.points.undo()).left_out == ("big",)
    monkeypatch.setattr(snapshots, "NEW_FILES", 3)
    for n in range(5):
        place.write(f"f{n}", "x")
    note = await place.command(2, "true")
    assert "cannot be undone" in note and "too big" in note
    assert await place.command(2, "true") == ""
    await place.edit(2, "f1", "y")
    await place.points.after(2)
    await place.points.undo()
    assert (place.root / "f1").read_text() == "x"


async def test_without_git_or_room_it_is_said_once_before_the_first_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place.base))
    assert await place.points.before(1, ["a"], whole=False) == "Changes cannot be undone here: git is not installed."
    assert await place.points.before(1, ["b"], whole=False) == ""
    with pytest.raises(AgentError, match="Nothing to undo"):
        await place.points.undo()


async def test_the_home_folder_is_never_taken_whole(place: Place) -> None:
    place.again(trees="this is the home folder")
    assert "home folder" in await place.command(1, "echo 1 > a")
    await place.edit(1, "b", "1")
    await place.points.after(1)
    assert (await place.points.undo()).paths == ("b",)


async def test_our_own_folders_in_the_project_are_never_taken_in(tmp_path: Path) -> None:
    place = Place(tmp_path.resolve())
    place.data = place.root / ".local" / "share"
    place.again()
    place.write("a", "1")
    for turn in (1, 2):
        await place.command(turn, f"echo {turn} > a")
        await place.points.after(turn)
        assert place.points.last() == (turn, ["a"])


async def test_a_full_store_is_followed_by_a_new_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "FULL", 1)
    for turn in range(1, 5):
        await place.edit(turn, "a", str(turn))
        await place.points.after(turn)
    stores = sorted(p.name for p in place_of(place.data, place.root).iterdir() if p.name.isdecimal())
    assert stores == ["3", "4"]
    await place.points.undo()
    await place.points.undo()
    assert place.files() == {"a": "2"}
    with pytest.raises(AgentError, match="Nothing to undo"):
        await place.points.undo()
    assert place.files() == {"a": "2"}


async def test_the_diff_of_a_session_is_against_what_was_there_first(place: Place) -> None:
    place.write("a", "0\n")
    for turn, text in enumerate(("1\n", "2\n"), 1):
        await place.edit(turn, "a", text)
        await place.edit(turn, "new", text)
        await place.points.after(turn)
    assert await place.points.changed() == [("a", b"0\n", b"2\n"), ("new", b"", b"2\n")]
    assert await place.points.changed(2) == [("a", b"1\n", b"2\n"), ("new", b"1\n", b"2\n")]
