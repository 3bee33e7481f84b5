from __future__ import annotations

from pathlib import Path

from agent.prompt.instructions import LIMIT, Instructions, byte_limit
from agent.prompt.system import build_system_prompt


def test_the_system_prompt_names_the_folder_and_ends_with_the_instructions_untouched() -> None:
    text = build_system_prompt(Path("/home/user/project"), "use {folder} and $HOME")
    assert "/home/user/project" in text
    assert text.endswith("\n\nuse {folder} and $HOME")
    assert text == build_system_prompt(Path("/home/user/project"), "use {folder} and $HOME")


def never(_text: str) -> bool:
    return False


def test_instructions_come_from_the_user_then_the_root_then_the_folder(tmp_path: Path) -> None:
    config, repo, sub = tmp_path / "config", tmp_path / "repo", tmp_path / "repo" / "sub"
    for folder in (config, sub, repo / ".git"):
        folder.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("above the repository")
    (config / "AGENTS.md").write_text("user")
    (repo / "CLAUDE.md").write_bytes(b"\xef\xbb\xbfroot\n")
    (sub / "AGENTS.md").write_text("sub")
    (sub / "CLAUDE.md").write_text("not this")
    parts = Instructions(sub, config).text.split("\n\n")
    assert parts[1::2] == ["user", "root", "sub"]
    assert parts[2] == f"# Instructions from {repo / 'CLAUDE.md'}"


def test_too_long_instructions_are_cut_visibly_and_the_nearest_count_most(tmp_path: Path) -> None:
    config, folder = tmp_path / "config", tmp_path / "project"
    config.mkdir()
    folder.mkdir()
    (config / "AGENTS.md").write_text("u" * LIMIT)
    (folder / "AGENTS.md").write_text("é" * 100)
    read = Instructions(folder, config)
    assert read.text.count("é") == 100
    assert "[cut:" in read.text and read.cut == [config / "AGENTS.md"]
    assert len(read.text.encode()) < LIMIT + 1000
    assert Instructions(tmp_path / "none", tmp_path / "none").text == ""


def test_instructions_take_at_most_a_quarter_of_the_context() -> None:
    assert byte_limit(262_144) == LIMIT
    assert byte_limit(8192) < 8192


def test_a_folder_below_has_its_instructions_given_once_when_something_there_is_read(tmp_path: Path) -> None:
    deep = tmp_path / "web" / "src"
    deep.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("top")
    (tmp_path / "web" / "AGENTS.md").write_text("use tabs")
    (deep / "CLAUDE.md").write_text("no globals")
    read = Instructions(tmp_path, tmp_path / "config")
    given = read.below(deep / "main.js", never)
    assert "top" in read.text and "tabs" not in read.text
    assert given.index("use tabs") < given.index("no globals") and "top" not in given
    assert read.below(deep / "main.js", lambda text: text in given) == ""
    assert read.below(tmp_path / "README.md", never) == ""
    assert read.below(Path("/etc/passwd"), never) == ""


def test_instructions_of_folders_below_share_the_limit(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "AGENTS.md").write_text("t" * 900)
    (tmp_path / "web" / "AGENTS.md").write_text("w" * 900)
    read = Instructions(tmp_path, tmp_path / "config", 1000)
    given = read.below(tmp_path / "web" / "a.py", never)
    assert given.count("w" * 100) == 1 and "[cut:" in given
