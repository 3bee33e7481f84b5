"""/permissions: the rules that count, where each is written, and away with one of the user's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.commands.base import Said
from agent.commands.permissions import permissions_command
from agent.config.paths import Paths
from agent.errors import ConfigError
from agent.wiring.rules import rulebook

CONFIG = '[permissions]\nallow = ["Bash(npm test:*)"]\ndeny = ["Read(/secret/**)"]\n'


class Desk:
    """The user's config, a project with rules of its own, and what was answered with `always` before."""

    def __init__(self, base: Path) -> None:
        self.paths = Paths.from_env({"DFLASH_HOME": str(base / "home")})
        self.folder = base / "project"
        (self.folder / ".dflash").mkdir(parents=True)
        self.paths.config.mkdir(parents=True)
        (self.paths.config / "config.toml").write_text(CONFIG)
        (self.folder / ".dflash" / "config.toml").write_text('[permissions]\nask = ["Bash(git push:*)"]\n')
        self.rules, self.notes = rulebook(self.paths, self.folder)
        self.rules.grant(["Bash(make:*)"], always=True)
        self.rules.grant(["Bash(ls:*)"], always=False)

    async def say(self, argument: str) -> str:
        session = SimpleNamespace(mode="ask")
        answer = await permissions_command(lambda: session, lambda: self.rules).run(argument)  # type: ignore[arg-type]
        assert isinstance(answer, Said)
        return answer.text


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_the_rules_stand_in_the_order_in_which_they_count_with_their_place(desk: Desk) -> None:
    rows = (await desk.say("")).split("\n")
    assert rows[0] == "Permission mode: ask. Deny counts before ask, ask before allow."
    assert [" ".join(row.split()) for row in rows[1:6]] == [
        f"1 deny Read(/secret/**) {desk.paths.config}/config.toml",
        "2 ask Bash(git push:*) .dflash/config.toml",
        f"3 allow Bash(npm test:*) {desk.paths.config}/config.toml",
        "4 allow Bash(make:*) always in this project",
        "5 allow Bash(ls:*) this session",
    ]


async def test_what_was_granted_is_taken_away_for_good(desk: Desk) -> None:
    assert await desk.say("remove 4") == "Removed: allow Bash(make:*) (always in this project)."
    assert await desk.say("remove 4") == "Removed: allow Bash(ls:*) (this session)."
    again, _ = rulebook(desk.paths, desk.folder)
    assert {r.text for r in again if not r.builtin} == {"Bash(npm test:*)", "Read(/secret/**)", "Bash(git push:*)"}


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("remove 1", "is written in .*config.toml; take it out there"),
        ("remove 2", "is written in .dflash/config.toml; take it out there"),
        ("remove 6", "There is no rule 6; there are 5"),
        ("remove 0", "There is no rule 0"),
        ("remove", "/permissions remove N"),
        ("allow x", "/permissions remove N"),
    ],
)
async def test_what_cannot_be_removed_is_said_and_stays(desk: Desk, argument: str, sentence: str) -> None:
    before = await desk.say("")
    with pytest.raises(ConfigError, match=sentence):
        await desk.say(argument)
    assert await desk.say("") == before
