"""A call is seen while it is being written."""

from __future__ import annotations

import json

import pytest

from agent.tui.cells.entries import entry_strips
from agent.tui.cells.growing import Growing, read_growing
from agent.tui.picture import Call

TEXT = "".join(f"line {n}: [bold]\t中文\n" for n in range(40))
RAW = json.dumps({"file": "src/app.py", "text": TEXT})


def rows(raw: str, width: int = 80, state: str = "writing") -> list[str]:
    return [s.text for s in entry_strips(Call("a", tool="write", state=state, preview=raw), width, False)]  # type: ignore[arg-type]


def test_a_file_is_seen_growing_with_its_path_its_size_and_its_newest_lines() -> None:
    cut = RAW[: RAW.index("line 17") + 7]
    shown = rows(cut)
    assert shown[0] == "◌ write  src/app.py  writing · 18 lines"
    assert [r.strip(" │").split()[0] for r in shown[1:7]] == ["13", "14", "15", "16", "17", "18"]
    assert shown[6].rstrip().endswith("line 17")


@pytest.mark.parametrize("width", [8, 20, 40, 120])
def test_every_prefix_is_drawn_within_the_width(width: int) -> None:
    for at in range(0, len(RAW), 3):
        strips = entry_strips(Call("a", tool="write", state="writing", preview=RAW[:at]), width, False)
        assert strips and all(s.cell_length <= width for s in strips)


def test_a_narrow_screen_keeps_the_files_name() -> None:
    raw = json.dumps({"file": "src/a/very/long/way/down/steps.py", "text": "x\n"})
    assert rows(raw[:-2], 40)[0] == "◌ write  …/steps.py  writing · 1 line"


@pytest.mark.parametrize(
    ("raw", "growing"),
    [
        ("", Growing()),
        ("{", Growing()),
        ('{"fi', Growing()),
        ('{"file": "src/', Growing("src/")),
        ('{"command": "npm te', Growing("npm te")),
        ('{"command": "cat <<E\\na\\nb', Growing("", "command", ("cat <<E", "a", "b"), 3)),
        ('{"file": "a", "find": "one', Growing("a", "find", ("one",), 1)),
        ('{"file": "a", "find": "one", "replace": "two\\n', Growing("a", "replace", ("two",), 1)),
        ('{"text": "x\\n", "file": "a', Growing("a")),
        ('{"limit": 3, "file": "a"}', Growing("a")),
        ('{file:<|"|>a', Growing()),
        ("[1, 2", Growing()),
        ('{"file": "a", "text": "half \\ud83', Growing("a", "text", ("half ",), 1)),
    ],
)
def test_what_can_be_read_of_incomplete_arguments(raw: str, growing: Growing) -> None:
    assert read_growing(raw) == growing


def test_what_cannot_be_read_still_shows_that_it_grows() -> None:
    assert rows('{file:<|"|>a.py')[0] == "◌ write  writing · 15 characters"


def test_an_edit_is_seen_as_what_it_takes_out_and_puts_in() -> None:
    raw = json.dumps({"file": "a.py", "find": "old\n", "replace": "new\nmore"})
    assert [r.strip(" │") for r in rows(raw[: raw.index('", "replace')])[1:2]] == ["- old"]
    assert [r.strip(" │") for r in rows(raw[:-2])[1:3]] == ["+ new", "+ more"]


def test_a_call_that_broke_off_stays_to_be_seen() -> None:
    assert rows(RAW[:60], state="cut")[0].endswith("broke off, not run · 1 line")
