from __future__ import annotations

from pathlib import Path

from agent.prompt.instructions import LIMIT, read_instructions
from agent.prompt.system import build_system_prompt


def test_the_system_prompt_names_the_folder_and_ends_with_the_instructions_untouched() -> None:
    text = build_system_prompt(Path("/home/user/project"), "use {folder} and $HOME")
    assert "/home/user/project" in text
    assert text.endswith("\n\nuse {folder} and $HOME")
    assert text == build_system_prompt(Path("/home/user/project"), "use {folder} and $HOME")


def test_instructions_come_from_the_user_then_the_root_then_the_folder(tmp_path: Path) -> None:
    config, repo, sub = tmp_path / "config", tmp_path / "repo", tmp_path / "repo" / "sub"
    for folder in (config, sub, repo / ".git"):
        folder.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("above the repository")
    (config / "AGENTS.md").write_text("user")
    (repo / "CLAUDE.md").write_bytes(b"\xef\xbb\xbfroot\n")
    (sub / "AGENTS.md").write_text("sub")
    (sub / "CLAUDE.md").write_text("not this")
    parts = read_instructions(sub, config).split("\n\n")
    assert parts[1::2] == ["user", "root", "sub"]
    assert parts[2] == f"# Instructions from {repo / 'CLAUDE.md'}"


def test_too_long_instructions_are_cut_visibly_and_the_nearest_count_most(tmp_path: Path) -> None:
    config, folder = tmp_path / "config", tmp_path / "project"
    config.mkdir()
    folder.mkdir()
    (config / "AGENTS.md").write_text("u" * LIMIT)
    (folder / "AGENTS.md").write_text("é" * 100)
    text = read_instructions(folder, config)
    assert text.count("é") == 100
    assert "[cut:" in text
    assert len(text.encode()) < LIMIT + 1000
    assert read_instructions(tmp_path / "none", tmp_path / "none") == ""
