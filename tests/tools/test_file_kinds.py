"""read, write and edit on real files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.tools.conftest import Bench

ODD = (
    "const greeting = “Hello”;\nlet a\u00a0= 1;   \n// caf\u00e9 — ＡＢＣ ﬁn\n"
    "const name = 'x';\nif (a.b*c[0]) {}\naxbbc0\ndup();\ndup();\n"
)


async def test_read_shows_numbered_lines_and_how_to_go_on(bench: Bench) -> None:
    (bench.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    out = await bench.call("read", file="a.txt", limit="2", offset=3)
    assert out.text == "    3\tline 3\n    4\tline 4\n[lines 3 to 4 of 10; go on with offset=5]"
    assert "has only 10 lines" in (await bench.call("read", file="a.txt", offset=11)).text
    assert (await bench.call("read", file="a.txt", limit=None, offset=-3)).text.startswith("    1\tline 1\n")


async def test_lines_with_carriage_returns_are_read_like_others_and_stay_as_they_are(bench: Bench) -> None:
    file = bench.root / "dos.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    assert (await bench.call("read", file="dos.txt")).text == "    1\tone\n    2\ttwo\n    3\tthree"
    await bench.call("edit", file="dos.txt", find="one\ntwo", replace="1\n2")
    await bench.call("edit", file="dos.txt", find="three", replace="3\n4")
    assert file.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n4\r\n"
    await bench.call("write", file="dos.txt", text="new\nlines\n")
    assert file.read_bytes() == b"\xef\xbb\xbfnew\r\nlines\r\n"


async def test_bytes_of_an_old_encoding_survive_an_edit(bench: Bench) -> None:
    (bench.root / "old.txt").write_bytes(b"caf\xe9 one\n")
    assert (await bench.call("read", file="old.txt")).text == "    1\tcaf\u00e9 one"
    await bench.call("edit", file="old.txt", find="one", replace="two")
    assert (bench.root / "old.txt").read_bytes() == b"caf\xe9 two\n"


@pytest.mark.parametrize(
    ("find", "replace", "told"),
    [
        ('const greeting = "Hallo";', "x", "The nearest line is 1 (with U+201C left double quotation mark"),
        ("// cafe \u2014 \uff21", "x", "The nearest line is 3 (with U+00E9"),
        ("let b = 1;\n// caf\u00e9", "x", "The nearest lines are 2 to 3 (with U+00A0 no-break space)"),
        ("dup();", "one();", "occurs 2 times in t.js, on lines 7, 8"),
        ("", "X", "find is empty"),
        ("dup();\ndup();", "dup();\ndup();", "nothing to change"),
        ("\u4e00\u4e01", "x", "Read the file again"),
    ],
)
async def test_an_uncertain_edit_is_refused_with_what_helps(bench: Bench, find: str, replace: str, told: str) -> None:
    (bench.root / "t.js").write_text(ODD)
    out = await bench.call("edit", file="t.js", find=find, replace=replace)
    assert out.failed
    assert told in out.text
    assert (bench.root / "t.js").read_text() == ODD


@pytest.mark.parametrize(
    ("find", "replace"),
    [
        ("const name = 'x';", r"const name = '\1 \g<0> $& $1 $$ $` \n \\ %s {0}';"),
        ("a.b*c[0]", "ok"),
        ("dup();\ndup();", "dup();"),
    ],
)
async def test_an_edit_takes_both_texts_literally(bench: Bench, find: str, replace: str) -> None:
    (bench.root / "t.js").write_text(ODD)
    assert not (await bench.call("edit", file="t.js", find=find, replace=replace)).failed
    assert (bench.root / "t.js").read_text() == ODD.replace(find, replace)


async def test_overlapping_places_are_two_places_and_replace_all_takes_all(bench: Bench) -> None:
    (bench.root / "o.txt").write_text("aaa b b")
    assert "occurs 2 times" in (await bench.call("edit", file="o.txt", find="aa", replace="c")).text
    await bench.call("edit", file="o.txt", find="b", replace="d", replace_all="true")
    assert (bench.root / "o.txt").read_text() == "aaa d d"


async def test_a_write_over_what_the_user_changed_meanwhile_is_refused_until_it_is_read(bench: Bench) -> None:
    file = bench.root / "notes.txt"
    file.write_text("alpha\nbeta\n")
    await bench.call("read", file="notes.txt")
    before = file.stat()
    file.write_text("alphX\nbeta\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "changed since you read it" in (await bench.call("write", file="notes.txt", text="new\n")).text
    assert file.read_text() == "alphX\nbeta\n"
    await bench.call("read", file="notes.txt")
    assert not (await bench.call("write", file="notes.txt", text="new\n")).failed


async def test_an_edit_keeps_the_users_new_line_and_a_write_after_it_cannot_lose_it(bench: Bench) -> None:
    file = bench.root / "notes.txt"
    file.write_text("alpha\nbeta\n")
    await bench.call("read", file="notes.txt")
    file.write_text("alpha\nbeta\nUSER LINE\n")
    assert not (await bench.call("edit", file="notes.txt", find="beta", replace="BETA")).failed
    assert (await bench.call("write", file="notes.txt", text="alpha\nBETA\n")).failed
    assert file.read_text() == "alpha\nBETA\nUSER LINE\n"


async def test_a_deleted_file_is_reported_once_and_then_may_be_made_again(bench: Bench) -> None:
    file = bench.root / "notes.txt"
    file.write_text("alpha\n")
    await bench.call("read", file="notes.txt")
    file.unlink()
    assert "was deleted" in (await bench.call("write", file="notes.txt", text="a\n")).text
    assert not file.exists()
    assert not (await bench.call("write", file="notes.txt", text="a\n")).failed
    assert not (await bench.call("write", file="notes.txt", text="b\n")).failed


async def test_a_file_never_read_is_not_overwritten(bench: Bench) -> None:
    (bench.root / "a").write_text("theirs\n")
    assert "have not read it" in (await bench.call("write", file="a", text="mine")).text
    assert (bench.root / "a").read_text() == "theirs\n"


async def test_a_change_between_the_approval_and_the_deed_stops_it(bench: Bench, tmp_path: Path) -> None:
    file, link, outside = bench.root / "a", bench.root / "link", tmp_path / "outside"
    file.write_text("one\n")
    outside.write_text("one\n")
    link.symlink_to(file)
    await bench.call("edit", lambda: file.write_text("user\n"), file="a", find="one", replace="two")
    assert file.read_text() == "user\n"
    file.write_text("one\n")

    def turn_the_link() -> None:
        link.unlink()
        link.symlink_to(outside)

    assert (await bench.call("edit", turn_the_link, file="link", find="one", replace="two")).failed
    assert outside.read_text() == "one\n"


async def test_a_write_goes_through_a_link_and_keeps_mode_and_hard_links(bench: Bench) -> None:
    (bench.root / "run.sh").write_text("echo 1\n")
    (bench.root / "run.sh").chmod(0o755)
    (bench.root / "link").symlink_to("run.sh")
    (bench.root / "h1").write_text("1\n")
    (bench.root / "h2").hardlink_to(bench.root / "h1")
    await bench.call("edit", file="link", find="1", replace="2")
    await bench.call("edit", file="h1", find="1", replace="2")
    assert (bench.root / "link").is_symlink()
    assert (bench.root / "run.sh").read_text() == "echo 2\n"
    assert (bench.root / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (bench.root / "h2").read_text() == "2\n"
    assert sorted(p.name for p in bench.root.iterdir()) == ["h1", "h2", "link", "run.sh"]


async def test_odd_targets_get_an_answer_at_once(bench: Bench) -> None:
    root = bench.root
    os.mkfifo(root / "pipe")
    (root / "loop1").symlink_to("loop2")
    (root / "loop2").symlink_to("loop1")
    os.truncate(os.open(root / "big", os.O_CREAT | os.O_WRONLY), 3 << 30)
    (root / "empty").touch()
    (root / "ro").write_text("ro\n")
    (root / "ro").chmod(0o444)
    (root / "wide").write_text("x" * 2_000_000)
    (root / "bin").write_bytes(b"a\0b")
    told = {"pipe": "pipe", "/dev/zero": "device", "loop1": "in a circle", "big": "too large", "empty": "is empty"}
    told |= {
        ".": "is a folder. It holds: big, bin, empty, loop1",
        "bin": "binary",
        "none": "no file none",
        "ro/x": "Not a dir",
    }
    told |= {"n" * 300: "name too long", "": "name is empty", "wide": "more characters]"}
    for file, words in told.items():
        assert words in (await bench.call("read", file=file)).text, file
    for file in ("pipe", "loop1", "big", "empty", ".", "bin", "none", "ro/x", "ro"):
        assert (await bench.call("edit", file=file, find="ro", replace="rw")).failed, file
    for file in ("pipe", "loop1", "big", ".", "ro/x"):
        assert (await bench.call("write", file=file, text="hi")).failed, file
    assert (root / "ro").read_text() == "ro\n"


async def test_new_folders_are_made_and_a_name_with_a_dash_is_a_name(bench: Bench) -> None:
    await bench.call("write", file="a/b/c/new.txt", text="hi")
    await bench.call("write", file="-rf", text="hi")
    assert (bench.root / "a/b/c/new.txt").read_text() == (bench.root / "-rf").read_text() == "hi"


def test_half_a_character_in_an_argument_is_a_wrong_argument(bench: Bench) -> None:
    with pytest.raises(ValidationError, match="half of a character"):
        bench.tools["write"].params.model_validate({"file": "a", "text": "x\ud83d"})


def test_the_plan_of_an_edit_shows_the_difference_to_what_is_on_disk(bench: Bench) -> None:
    (bench.root / "a").write_text("one\ntwo\n")
    tool = bench.tools["edit"]
    plan = tool.plan(tool.params.model_validate({"file": "a", "find": "two", "replace": "2"}))
    assert plan.preview.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " one", "-two", "+2"]
    assert plan.paths == (str(bench.root / "a"),)
    assert not plan.outside
