"""list, glob and grep, with the real ripgrep in real folders."""

from __future__ import annotations

import os

import pytest

from agent.config.rules import SECRETS
from agent.core.rules import Rule, Rulebook
from tests.tools.conftest import Bench


def fill(bench: Bench, *names: str) -> None:
    for age, name in enumerate(names):
        path = bench.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\nneedle one\n")
        os.utime(path, (1_000_000 - age, 1_000_000 - age))


async def test_a_listing_shows_folders_and_what_is_below_and_names_what_is_ignored(bench: Bench) -> None:
    fill(bench, "a.py", "src/b.py", "src/deep/c.py", "node_modules/x/y.js")
    (bench.root / ".gitignore").write_text("node_modules\n")
    (bench.root / "void").mkdir()
    text = (await bench.call("list")).text
    assert text.split("\n") == [
        ".gitignore", "a.py", "node_modules/  (ignored)", "src/", "  b.py", "  deep/c.py", "void/  (empty)",
    ]  # fmt: skip


async def test_nothing_found_in_the_project_is_said_of_the_project(bench: Bench) -> None:
    fill(bench, "a.py")
    assert (await bench.call("grep", pattern="absent")).text == "No line matches absent in the project."


async def test_a_big_folder_is_counted_and_not_listed(bench: Bench) -> None:
    fill(bench, "a.py", *(f"many/{n}.txt" for n in range(300)))
    assert (await bench.call("list")).text.split("\n") == ["a.py", "many/  (300 files)"]
    many = (await bench.call("list", path="many")).text
    assert "[100 more entries are left out]" in many


async def test_an_empty_or_missing_folder_and_a_file_get_their_own_answers(bench: Bench) -> None:
    assert (await bench.call("list")).text == ". is empty."
    fill(bench, "a.py")
    assert "There is no absent" in (await bench.call("list", path="absent")).text
    assert "is a file; use read" in (await bench.call("list", path="a.py")).text


async def test_glob_gives_the_newest_first_and_leaves_ignored_files_out(bench: Bench) -> None:
    fill(bench, "new.py", "src/old.py", "build/x.py", ".hidden.py")
    (bench.root / ".gitignore").write_text("build/\n")
    assert (await bench.call("glob", pattern="**/*.py")).text == "new.py\nsrc/old.py\n.hidden.py"
    assert (await bench.call("glob", pattern="*.py")).text == "new.py\nsrc/old.py\n.hidden.py"
    assert (await bench.call("glob", pattern="src/*.py")).text == "src/old.py"
    assert (await bench.call("glob", pattern="src/old.py")).text == "src/old.py"
    assert (await bench.call("glob", pattern="{new,x}.py")).text == "new.py"
    assert (await bench.call("glob", pattern=str(bench.root / "src/*"))).text == "src/old.py"
    assert "No file matches" in (await bench.call("glob", pattern="*.rs")).text
    assert "no folder" in (await bench.call("glob", pattern="nowhere/*.rs")).text


async def test_glob_counts_what_it_leaves_out(bench: Bench) -> None:
    fill(bench, *(f"{n}.txt" for n in range(130)))
    rows = (await bench.call("glob", pattern="*.txt")).text.split("\n")
    assert (len(rows), rows[0], rows[-1]) == (101, "0.txt", "[the 100 newest of 130; narrow the pattern for others]")


async def test_grep_groups_lines_by_file_and_counts_what_it_leaves_out(bench: Bench) -> None:
    fill(bench, "b.txt", "a/x.txt")
    assert (await bench.call("grep", pattern="n.edle")).text == "a/x.txt\n    2\tneedle one\nb.txt\n    2\tneedle one"
    assert (await bench.call("grep", pattern="needle", path="b.txt")).text == "b.txt\n    2\tneedle one"
    assert (await bench.call("grep", pattern="needle", path="a")).text == "a/x.txt\n    2\tneedle one"
    assert (await bench.call("grep", pattern="needle", path="a/x.txt")).text == "a/x.txt\n    2\tneedle one"
    assert (await bench.call("grep", pattern="needle", path="*.txt")).text.startswith("a/x.txt")
    assert (await bench.call("grep", pattern="needle", path="a/*.txt")).text == "a/x.txt\n    2\tneedle one"
    assert "No line matches" in (await bench.call("grep", pattern="absent")).text
    (bench.root / "many").write_text("needle\n" * 250 + "x" * 1000 + "needle\n")
    text = (await bench.call("grep", pattern="needle", path="many")).text
    assert "[151 more lines match and are left out" in text


async def test_a_pattern_that_is_none_and_a_place_that_is_not_there_are_told(bench: Bench) -> None:
    out = await bench.call("grep", pattern="(")
    assert out.failed and "Cannot search" in out.text and "unclosed" in out.text
    assert "There is no absent" in (await bench.call("grep", pattern="x", path="absent")).text
    assert "empty" in (await bench.call("grep", pattern="")).text


async def test_grep_shows_nothing_of_a_secret(bench: Bench) -> None:
    fill(bench, "a.txt", ".env", "certs/x.pem")
    rules = Rulebook([Rule.parse("deny", f"Read({s})", "", root=str(bench.root), home="/h") for s in SECRETS])
    bench.hides = rules.hides
    assert (await bench.call("grep", pattern="needle")).text == "a.txt\n    2\tneedle one"


@pytest.mark.parametrize("name", ["-v", "a b", "x\ny", "'q'", "[1]"])
async def test_odd_names_are_found(bench: Bench, name: str) -> None:
    fill(bench, f"{name}.txt")
    shown = f"{name}.txt"
    assert (await bench.call("glob", pattern="*.txt")).text == shown
    assert (await bench.call("grep", pattern="needle", path=f"{name}.txt")).text.startswith(shown)


async def test_the_users_own_ripgrep_settings_do_not_count(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(bench, "a.txt")
    (bench.root.parent / "rc").write_text("--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(bench.root.parent / "rc"))
    assert (await bench.call("grep", pattern="needle")).text == "a.txt\n    2\tneedle one"
