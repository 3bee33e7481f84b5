from __future__ import annotations

from pathlib import Path

import pytest

from agent.workspace.paths import Workspace


@pytest.mark.parametrize(
    ("file", "outside"),
    [
        ("a.txt", False),
        ("sub/../a.txt", False),
        ("../x", True),
        ("/etc/passwd", True),
        ("out", True),
        ("dangling", True),
        (".git/config", True),
        (".GIT/config", True),
        ("sub/.dflash/config.toml", True),
        (".bashrc", True),
        (".gitignore", False),
        ("loop", False),
    ],
)
def test_what_leads_out_or_to_a_protected_place_is_outside(tmp_path: Path, file: str, outside: bool) -> None:
    root = tmp_path.resolve() / "project"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "dangling").symlink_to(tmp_path / "new")
    (root / "loop").symlink_to("loop")
    space = Workspace(root)
    assert space.outside(space.locate(file)) is outside


def test_an_extra_folder_is_inside_and_a_link_is_shown_with_where_it_leads(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    root, extra = base / "project", base / "extra"
    root.mkdir()
    extra.mkdir()
    (root / "link").symlink_to(extra / "file")
    space = Workspace(root, (extra,))
    assert not space.outside(space.locate("link"))
    assert space.shown(space.locate("link")) == f"link → {extra / 'file'}"
    assert space.shown(space.locate("a/b")) == "a/b"
