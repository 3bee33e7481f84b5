"""Files that a project brings may be links to devices, which git carries, or pipes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config.jsonfile import read_object
from agent.config.plainfile import LONGEST, read_text
from agent.config.profile import load_profile
from agent.config.rules import read_rules
from agent.config.settings import load_settings
from agent.config.trust import digest_of_files
from agent.errors import ConfigError


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def pipe(file: Path) -> None:
    os.mkfifo(file)


@pytest.mark.parametrize("make", [device, pipe])
def test_what_never_ends_is_no_file_to_be_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    file, absent = tmp_path / "config.toml", tmp_path / "absent"
    make(file)
    with pytest.raises(ConfigError, match="pipe, socket or device"):
        load_settings(file)
    rules, notes = read_rules(absent, file, absent, tmp_path, tmp_path)
    assert all(r.builtin for r in rules) and "Its rules do not count." in notes[0]
    assert read_object(file) == {}
    assert digest_of_files([file]) != digest_of_files([])
    with pytest.raises(ConfigError, match="pipe, socket or device"):
        load_profile("config", [tmp_path])


def test_what_is_too_long_or_nested_too_deeply_gets_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("x=" + "[" * 100_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_settings(file)
    with file.open("wb") as opened:
        opened.truncate(LONGEST + 1)
    with pytest.raises(ConfigError, match="longer than 8 MB"):
        load_settings(file)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"a": "é"}).encode())
    assert json.loads(read_text(file)) == {"a": "é"}
