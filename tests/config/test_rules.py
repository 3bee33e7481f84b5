"""Where rules are written, and who may write what."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config.rules import Written, forget_rule, keep_rules, read_rules
from agent.errors import ConfigError


class Files:
    def __init__(self, base: Path) -> None:
        self.home, self.folder = base, base / "project"
        (self.folder / ".dflash").mkdir(parents=True)
        self.user, self.project = base / "config.toml", self.folder / ".dflash" / "config.toml"
        self.kept = base / "state" / "permissions.json"

    def read(self) -> tuple[list[Written], list[str]]:
        rules, notes = read_rules(self.user, self.project, self.kept, self.folder, self.home)
        return [r for r in rules if not r.builtin], notes


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_without_any_file_only_secrets_are_denied(files: Files) -> None:
    assert files.read() == ([], [])
    rules, _ = read_rules(files.user, files.project, files.kept, files.folder, files.home)
    assert {r.verdict for r in rules} == {"deny"}
    assert "Read(.env)" in {r.text for r in rules}


def test_the_users_file_may_allow_and_a_project_may_only_forbid_and_ask(files: Files) -> None:
    files.user.write_text('other = 1\n[permissions]\nallow = ["Bash(ls:*)"]\ndeny = ["Bash(rm:*)"]\n')
    files.project.write_text('[permissions]\nallow = ["Bash"]\nask = ["Edit"]\ndeny = ["Read(x)"]\n')
    rules, notes = files.read()
    assert [(r.verdict, r.text, r.source) for r in rules] == [
        ("deny", "Bash(rm:*)", "~/config.toml"),
        ("allow", "Bash(ls:*)", "~/config.toml"),
        ("deny", "Read(x)", ".dflash/config.toml"),
        ("ask", "Edit", ".dflash/config.toml"),
    ]
    assert notes == [".dflash/config.toml cannot allow anything: 1 allow rules of this project do not count."]


def test_what_is_kept_for_a_project_holds_there_only_and_can_be_taken_back(files: Files) -> None:
    keep_rules(files.kept, files.folder, ["Bash(make:*)", "Edit(/a)"])
    keep_rules(files.kept, files.folder, ["Bash(make:*)"])
    keep_rules(files.kept, files.home / "other", ["Bash(x)"])
    assert [r.text for r in files.read()[0]] == ["Bash(make:*)", "Edit(/a)"]
    assert files.kept.stat().st_mode & 0o777 == 0o600
    forget_rule(files.kept, files.folder, "Edit(/a)")
    assert [(r.text, r.source) for r in files.read()[0]] == [("Bash(make:*)", "always in this project")]
    assert not list(files.folder.rglob("*.json"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[permissions\n", "is not valid TOML"),
        ("permissions = 1\n", "must be a table"),
        ('[permissions]\nallow = "x"\n', "allow must be a list"),
        ("[permissions]\nallowed = []\n", "permissions.allowed is not known"),
    ],
)
def test_a_broken_file_of_the_users_is_an_error_and_a_projects_a_note(files: Files, text: str, says: str) -> None:
    files.user.write_text(text)
    with pytest.raises(ConfigError, match=says):
        files.read()
    files.user.rename(files.project)
    rules, notes = files.read()
    assert rules == []
    assert says in notes[0] and "do not count" in notes[0]


def test_a_broken_memory_is_named_and_kept(files: Files) -> None:
    files.kept.parent.mkdir()
    files.kept.write_text("{")
    with pytest.raises(ConfigError, match=r"permissions\.json"):
        keep_rules(files.kept, files.folder, ["Bash"])
    assert files.kept.read_text() == "{"
