"""read, write and edit on real files: nothing is lost, nothing outside the place changes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolFailure
from agent.messages import ToolOutput
from agent.protocols import Plan, ToolContext
from agent.tools.edit import Edit
from agent.tools.process import ProcessBook
from agent.tools.read import Read
from agent.tools.registry import build_tools, tool_schemas
from agent.tools.seen import Seen
from agent.tools.write import Write
from agent.workspace.paths import Workspace


class Files:
    def __init__(self, root: Path) -> None:
        self.root = root
        workspace, seen = Workspace(root), Seen()
        self.tools: dict[str, Any] = {
            t.name: t
            for t in (Read(workspace, seen), Write(workspace, seen), Edit(workspace, seen, lambda path: False))
        }

    def plan(self, tool: str, **arguments: Any) -> Plan:
        return self.tools[tool].plan(self.tools[tool].params.model_validate(arguments))

    async def __call__(self, tool: str, **arguments: Any) -> ToolOutput:
        plan = self.plan(tool, **arguments)
        params = self.tools[tool].params.model_validate(arguments)
        return await self.tools[tool].run(params, ToolContext("c", plan, lambda text: None))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    root = tmp_path / "project"
    root.mkdir()
    return Files(root)


async def test_read_numbers_lines_and_says_how_to_go_on(files: Files) -> None:
    (files.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 1001)))
    text = (await files("read", file="a.txt", offset="10", limit=2)).text
    assert text == "   10\tline 10\n   11\tline 11\n[lines 10 to 11 of 1000; go on with offset=12]"


@pytest.mark.parametrize("offset", [3, 99])
async def test_read_past_the_end_says_how_long_the_file_is(files: Files, offset: int) -> None:
    (files.root / "a.txt").write_text("1\n2\n")
    with pytest.raises(ToolFailure, match="only 2 lines"):
        await files("read", file="a.txt", offset=offset)


async def test_odd_targets_are_answered_at_once(files: Files) -> None:
    os.mkfifo(files.root / "pipe")
    (files.root / "loop").symlink_to("loop")
    (files.root / "empty").touch()
    (files.root / "data.bin").write_bytes(b"\0\1\2")
    (files.root / "min.js").write_text("x" * 500_000)
    for name, says in (("pipe", "not a plain file"), ("/dev/zero", "not a plain file"), ("loop", "in a circle")):
        with pytest.raises(ToolFailure, match=says):
            await files("read", file=name)
    with pytest.raises(ToolFailure, match="is a folder"):
        await files("read", file=".")
    with pytest.raises(ToolFailure, match="There is no file"):
        await files("read", file="absent")
    assert "is empty" in (await files("read", file="empty")).text
    (files.root / "a.png").write_bytes(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
    )
    for name, says in (("data.bin", "is binary .3 bytes.*not text"), ("a.png", "is a PNG image of 640 × 480")):
        with pytest.raises(ToolFailure, match=says):
            await files("read", file=name)
    assert len((await files("read", file="min.js")).text) < 3000


async def test_write_makes_folders_and_shows_a_diff_first(files: Files) -> None:
    assert "+hello" in files.plan("write", file="a/b/c.txt", text="hello\n").preview
    await files("write", file="a/b/c.txt", text="hello\n")
    assert (files.root / "a/b/c.txt").read_text() == "hello\n"


async def test_a_file_that_was_not_read_or_has_changed_is_not_overwritten(files: Files) -> None:
    path = files.root / "a.txt"
    path.write_text("USER LINE\n")
    with pytest.raises(ToolFailure, match="have not read it"):
        await files("write", file="a.txt", text="new")
    await files("read", file="a.txt")
    before = path.stat()
    path.write_text("USER LYNE\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the same size and time
    with pytest.raises(ToolFailure, match="changed since you read it"):
        await files("write", file="a.txt", text="new")
    await files("read", file="a.txt")
    await files("write", file="a.txt", text="new")
    await files("write", file="a.txt", text="newer")
    assert path.read_text() == "newer"


async def test_a_change_between_the_question_and_the_answer_is_refused(files: Files) -> None:
    path = files.root / "a.txt"
    path.write_text("one\n")
    await files("read", file="a.txt")
    plan = files.plan("edit", file="a.txt", find="one", replace="two")
    path.write_text("one and more\n")
    edit = files.tools["edit"]
    with pytest.raises(ToolFailure, match="changed while"):
        await edit.run(edit.params(file="a.txt", find="one", replace="two"), ToolContext("c", plan, lambda text: None))
    assert path.read_text() == "one and more\n"


async def test_an_edit_applies_to_what_is_there_now(files: Files) -> None:
    path = files.root / "a.txt"
    path.write_text("one\n")
    await files("read", file="a.txt")
    path.write_text("one\nUSER LINE\n")
    await files("edit", file="a.txt", find="one", replace="two")
    assert path.read_text() == "two\nUSER LINE\n"


async def test_a_file_deleted_since_does_not_come_back_silently(files: Files) -> None:
    path = files.root / "a.txt"
    path.write_text("one\n")
    await files("read", file="a.txt")
    path.unlink()
    for tool, arguments in (("write", {"text": "x"}), ("edit", {"find": "one", "replace": "two"})):
        with pytest.raises(ToolFailure, match="deleted"):
            await files(tool, file="a.txt", **arguments)
    assert not path.exists()


@pytest.mark.parametrize(
    ("find", "replace", "after"),
    [
        ("a.b", r"\1$&\n", r"x \1$&\n axb — “q” end" + "\n"),
        ("“q”", "q", "x a.b axb — q end\n"),
    ],
)
async def test_edit_is_literal(files: Files, find: str, replace: str, after: str) -> None:
    path = files.root / "a.txt"
    path.write_text("x a.b axb — “q” end\n")
    await files("read", file="a.txt")
    await files("edit", file="a.txt", find=find, replace=replace)
    assert path.read_text() == after


@pytest.mark.parametrize(
    ("find", "replace", "says"),
    [
        ("", "x", "find is empty"),
        ("one", "one", "nothing to change"),
        ("same", "x", "occurs 2 times in a.txt, on lines 2, 4"),
        ("nothing like it at all", "x", "not found in a.txt"),
        ("two — dish", "x", "nearest line is 5"),
    ],
)
async def test_an_uncertain_edit_is_refused_and_says_why(files: Files, find: str, replace: str, says: str) -> None:
    path = files.root / "a.txt"
    text = "one\nsame\nother\nsame\ntwo - dash\n"
    path.write_text(text)
    await files("read", file="a.txt")
    with pytest.raises(ToolFailure, match=says):
        await files("edit", file="a.txt", find=find, replace=replace)
    assert path.read_text() == text


async def test_line_ends_mode_and_links_are_kept(files: Files) -> None:
    real = files.root / "real.sh"
    real.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    real.chmod(0o755)
    (files.root / "link.sh").symlink_to("real.sh")
    await files("read", file="link.sh")
    await files("edit", file="link.sh", find="one\ntwo", replace="1\n2")
    assert real.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nthree"
    assert (files.root / "link.sh").is_symlink() and real.stat().st_mode & 0o777 == 0o755


async def test_a_read_only_file_is_left_as_it_is(files: Files) -> None:
    path = files.root / "ro.txt"
    path.write_text("one")
    path.chmod(0o444)
    await files("read", file="ro.txt")
    with pytest.raises(ToolFailure, match="read-only"):
        await files("edit", file="ro.txt", find="one", replace="two")
    assert path.read_text() == "one"


@pytest.mark.parametrize(
    "name", ["../out.md", "/tmp/out.md", ".git/hooks/pre-commit", ".dflash/config.toml", "dangling", ".bashrc"]
)
def test_what_leads_out_or_could_run_later_is_marked(files: Files, tmp_path: Path, name: str) -> None:
    (files.root / "dangling").symlink_to(tmp_path / "elsewhere")
    assert files.plan("write", file=name, text="x").outside


def test_a_file_named_like_an_option_is_a_file(files: Files) -> None:
    plan = files.plan("write", file="-rf", text="x")
    assert plan.title == "-rf" and not plan.outside


def test_the_schemas_are_small_flat_and_always_the_same(tmp_path: Path) -> None:
    def schemas() -> str:
        return tool_schemas(build_tools(Workspace(tmp_path), {}, tmp_path, ProcessBook()))

    text = schemas()
    assert text == schemas()  # test_registry counts them
    assert '"title"' not in text and "$defs" not in text and "anyOf" not in text


async def test_a_change_of_the_same_length_within_a_second_has_another_date(files: Files) -> None:
    """By date and length Python decides whether what it has compiled still holds."""
    await files("write", file="thing.py", text="value = 1\n")
    file = files.root / "thing.py"
    before = int(time.time())
    os.utime(file, (before, before))
    await files("edit", file="thing.py", find="1", replace="2")
    assert int(file.stat().st_mtime) != before
