"""Diffs as they are shown are such as git takes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent.tools.diff import unified


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"x\ny", b"x\nz"), (b"", b"q"), (b"q\n", b"q"), (b"q", b"q\n"), (b"a\n\nb\n", b"a\n\nb\nc"), (b"a\nb", b"c\nb")],
)
def test_a_diff_is_a_patch_also_where_the_last_line_has_no_end(tmp_path: Path, old: bytes, new: bytes) -> None:
    file = tmp_path / "f"
    file.write_bytes(old)
    (tmp_path / "p").write_text(unified("f", old, new) + "\n")
    subprocess.run(["git", "apply", "p"], cwd=tmp_path, check=True)
    assert file.read_bytes() == new
