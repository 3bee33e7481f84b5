"""What the user has let run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent.config.trust import Thing, Trust, digest_of, digest_of_files


def test_an_answer_holds_until_the_content_changes(tmp_path: Path) -> None:
    file = tmp_path / "state" / "trust.json"
    thing = Thing(tmp_path / ".mcp.json", digest_of({"command": "a", "args": ["b"]}), "git")
    assert Trust(file).verdict(thing) == "new"
    assert Trust(file).settle(thing, allowed=True)
    assert Trust(file).allows(Thing(tmp_path / ".mcp.json", digest_of({"args": ["b"], "command": "a"}), "git"))
    assert Trust(file).verdict(Thing(thing.place, digest_of({"command": "evil"}), "git")) == "changed"
    assert Trust(file).verdict(Thing(thing.place, thing.digest, "other")) == "new"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_refusal_is_remembered_too_and_can_be_forgotten(tmp_path: Path) -> None:
    trust, thing = Trust(tmp_path / "trust.json"), Thing(tmp_path, "d")
    trust.settle(thing, allowed=False)
    assert Trust(tmp_path / "trust.json").verdict(thing) == "refused"
    trust.forget(thing)
    assert trust.verdict(thing) == "new"


def test_trusting_everything_remembers_nothing(tmp_path: Path) -> None:
    thing = Thing(tmp_path, "d")
    assert Trust(tmp_path / "trust.json", everything=True).allows(thing)
    assert Trust(tmp_path / "trust.json").verdict(thing) == "new"


def test_a_place_is_the_same_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    trust = Trust(tmp_path / "trust.json")
    trust.settle(Thing(tmp_path / "link", "d"), allowed=True)
    assert trust.allows(Thing(tmp_path / "real", "d"))


def test_an_answer_that_cannot_be_written_counts_for_this_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    trust = Trust(tmp_path / "file" / "trust.json")
    assert not trust.settle(Thing(tmp_path, "d"), allowed=True)
    assert trust.allows(Thing(tmp_path, "d"))


def test_a_broken_file_means_asking_again(tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    file.write_text('{"things": [1]')
    trust = Trust(file)
    assert trust.verdict(Thing(tmp_path, "d")) == "new"
    trust.settle(Thing(tmp_path, "d"), allowed=True)
    assert Trust(file).allows(Thing(tmp_path, "d"))


def test_windows_that_answer_at_once_lose_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    things = [Thing(tmp_path / str(n), "d") for n in range(20)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda thing: Trust(file).settle(thing, allowed=True), things))
    assert all(Trust(file).allows(thing) for thing in things)


def test_files_count_by_name_and_content_and_by_what_a_link_leads_to(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("one")
    before = digest_of_files([a, b])
    assert digest_of_files([b, a]) == before
    b.symlink_to(a)
    linked = digest_of_files([a, b])
    a.write_text("two")
    assert len({before, linked, digest_of_files([a, b])}) == 3
    os.unlink(b)
    a.write_text("one")
    assert digest_of_files([a, b]) == before
