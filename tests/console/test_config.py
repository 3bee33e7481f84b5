"""`dflash-agent config`, run as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


class Desk:
    def __init__(self, base: Path) -> None:
        self.home, self.folder = base / "home", base / "project"
        self.folder.mkdir()
        (self.home / "config").mkdir(parents=True)
        self.file = self.home / "config" / "config.toml"

    def config(self, *words: str, **env: str) -> tuple[int, str, str]:
        argv = [sys.executable, "-P", "-m", "agent", "config", *words]
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "DFLASH_HOME": str(self.home)}
        done = subprocess.run(argv, cwd=self.folder, env=own | env, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_path_is_the_users_own_file_whether_it_is_there_or_not(desk: Desk) -> None:
    assert desk.config("path") == (0, f"{desk.file}\n", "")


def test_show_tells_each_value_and_whose_it_is(desk: Desk) -> None:
    desk.file.write_text('sandbox = "workspace"\nsandbox_home = [".cargo"]\nold = 1\n')
    code, out, err = desk.config("show", DFLASH_PROFILE="smoke")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert rows == [
        'profile "smoke" DFLASH_PROFILE',
        'permission_mode "ask" default',
        f'sandbox "workspace" {desk.file}',
        "sandbox_network false default",
        f'sandbox_home [".cargo"] {desk.file}',
        "permissions {} default",
        f"{desk.file}: not known and left out: old.",
    ]
    values = json.loads(desk.config("show", "--json")[1])
    assert values["sandbox"] == {"value": "workspace", "source": str(desk.file)}


def test_explain_names_all_who_spoke_and_the_one_who_decides(desk: Desk) -> None:
    desk.file.write_text('profile = "mine"\n')
    assert desk.config("explain", "profile", DFLASH_PROFILE="smoke")[1].splitlines() == [
        'profile = "smoke"',
        "It says which engine, model and draft run.",
        'It may be a name, such as "smoke".',
        "",
        '  default: ""',
        f'  {desk.file}: "mine"',
        '→ DFLASH_PROFILE: "smoke"',
    ]


def test_what_an_untrusted_folder_says_is_named_and_left_out(desk: Desk) -> None:
    (desk.folder / ".dflash").mkdir()
    (desk.folder / ".dflash" / "config.toml").write_text('sandbox = "workspace"\n')
    out = desk.config("show")[1]
    assert 'sandbox          "off"' in out
    assert "is left out: this folder is not trusted" in out


@pytest.mark.parametrize("verb", ["show", "explain"])
def test_a_broken_file_or_key_is_one_sentence(desk: Desk, verb: str) -> None:
    desk.file.write_text("" if verb == "explain" else "profile = 'x\n")
    code, out, err = desk.config(verb, *(["modell"] if verb == "explain" else []))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert ("There is no setting 'modell'; there are profile" if verb == "explain" else str(desk.file)) in err
