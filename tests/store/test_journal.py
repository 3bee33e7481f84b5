"""Sessions on disk survive what happens to files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.codec import UnknownEvent, decode, encode
from agent.errors import ConfigError
from agent.events import DURABLE, AssistantAdded, Event, Notice, ResultAdded, TextDelta, TurnEnded, TurnStarted
from agent.messages import AssistantMessage, Timings, ToolCall, Usage, UserMessage
from agent.protocols import TextChunk
from agent.store.archive import FileArchive
from tests.fakes.core import ScriptedModel, open_session, text

FOLDER = Path("/some/project")


def started(number: int, text: str = "hello\nworld") -> TurnStarted:
    return TurnStarted(number, UserMessage(f"m{number}", text))


st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))  # figures are finite


@settings(deadline=None)
@given(st.one_of(*(st.from_type(kind) for kind in DURABLE)))
def test_every_durable_event_survives_a_round_trip(event: object) -> None:
    assert decode(encode(event)) == event  # type: ignore[arg-type]


def test_an_event_of_a_newer_version_is_written_back_unchanged() -> None:
    line = '{"event": "Telepathy", "thought": [1, 2]}'
    event = decode(line)
    assert isinstance(event, UnknownEvent) and encode(event) == line


def test_an_event_with_fields_of_a_newer_version_is_still_read() -> None:
    assert decode('{"event":"TurnEnded","turn":1,"outcome":"done","mood":"good"}') == TurnEnded(1, "done")


def test_a_session_is_listed_by_its_first_line_and_loaded_whole(tmp_path: Path) -> None:
    archive = FileArchive(tmp_path / "sessions")
    journal = archive.create(FOLDER)
    message = AssistantMessage(
        "m2", "hi\u2028there", "", (ToolCall("c", "bash", "{"),), "stop", Usage(1), Timings(draft_n=3)
    )
    events = [
        started(1),
        AssistantAdded(1, message),
        ResultAdded("c", "bash", "\x00\x1b[31m", True, 0.1),
        TurnEnded(1, "done"),
    ]
    for event in events:
        journal.append(event)
    journal.close()
    assert [(i.title, i.folder) for i in archive.list(FOLDER)] == [("hello", str(FOLDER))]
    assert list(archive.load(journal.session_id)) == events


def test_a_session_without_a_word_leaves_no_file(tmp_path: Path) -> None:
    FileArchive(tmp_path).create(FOLDER).close()
    assert list(tmp_path.iterdir()) == []


def test_a_line_cut_by_a_kill_does_not_spoil_what_follows(tmp_path: Path) -> None:
    archive = FileArchive(tmp_path)
    journal = archive.create(FOLDER)
    journal.append(started(1))
    journal.close()
    path = tmp_path / f"{journal.session_id}.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event":"TurnEnded","tu')
    again = archive.reopen(journal.session_id)
    again.append(started(2))
    again.close()
    assert list(archive.load(journal.session_id)) == [started(1), started(2)]


def test_two_windows_cannot_write_one_session(tmp_path: Path) -> None:
    archive = FileArchive(tmp_path)
    journal = archive.create(FOLDER)
    journal.append(started(1))
    with pytest.raises(ConfigError, match="open in another window"):
        archive.reopen(journal.session_id)
    journal.close()
    archive.reopen(journal.session_id).close()


@pytest.mark.parametrize("session_id", ["nope", "", "../etc/passwd", "a/b"])
def test_an_unknown_session_is_one_clear_sentence(tmp_path: Path, session_id: str) -> None:
    with pytest.raises(ConfigError, match="No session"):
        FileArchive(tmp_path).load(session_id)


def test_a_session_is_listed_by_the_name_that_opens_it(tmp_path: Path) -> None:
    """A journal may have been copied or renamed by hand."""
    archive = FileArchive(tmp_path)
    journal = archive.create(FOLDER)
    journal.append(started(1))
    journal.close()
    (tmp_path / f"{journal.session_id}.jsonl").rename(tmp_path / "kept.jsonl")
    assert [archive.load(info.id) for info in archive.list()] == [(started(1),)]


def test_a_broken_file_among_sessions_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_bytes(b"\xff\xfe nonsense")
    (tmp_path / "empty.jsonl").touch()
    assert FileArchive(tmp_path).list() == ()


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    archive = FileArchive(tmp_path / "sessions")
    journal = archive.create(FOLDER)
    journal.append(started(1))
    journal.close()
    assert (tmp_path / "sessions" / f"{journal.session_id}.jsonl").stat().st_mode & 0o077 == 0


def test_odd_files_among_the_sessions_stop_nothing(tmp_path: Path) -> None:
    archive = FileArchive(tmp_path)
    journal = archive.create(FOLDER)
    journal.append(started(1))
    journal.close()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    with (tmp_path / f"{journal.session_id}.jsonl").open("a") as file:
        file.write("[" * 100_000 + "\n")
    assert [info.id for info in archive.list()] == [journal.session_id]
    assert archive.load(journal.session_id) == (started(1),)


@pytest.mark.parametrize("moved", [True, False])
async def test_a_session_whose_file_is_moved_or_deleted_says_so_and_goes_on(tmp_path: Path, moved: bool) -> None:
    journal = FileArchive(tmp_path).create(FOLDER)
    session = open_session(ScriptedModel(text("one"), text("two")), journal=journal)
    subscription = session.subscribe()
    session.submit("hi")
    await session.idle()
    path = tmp_path / f"{session.id}.jsonl"
    path.rename(tmp_path / "elsewhere") if moved else path.unlink()
    session.submit("more")
    await session.idle()
    await session.close()
    events = [e async for e in subscription]
    (notice,) = [e.text for e in events if isinstance(e, Notice)]
    assert notice == f"This session is no longer saved: {path} was moved or deleted."
    assert [e.message.text for e in events if isinstance(e, AssistantAdded)] == ["one", "two"]
    assert not path.exists()


async def test_a_session_that_is_moved_while_a_reply_streams_says_so_at_once(tmp_path: Path) -> None:
    class Hours:
        """Each look at it is an hour later."""

        passed = 0.0

        def now(self) -> float:
            return 0.0

        def monotonic(self) -> float:
            self.passed += 3600.0
            return self.passed

    held, journal = asyncio.Event(), FileArchive(tmp_path / "sessions").create(FOLDER)
    model = ScriptedModel([TextChunk("one "), held, TextChunk("two "), held, *text("three")])
    session = open_session(model, journal=journal, clock=Hours())
    subscription = session.subscribe()
    session.submit("hi")
    events: list[Event] = []
    async for event in subscription:
        events.append(event)
        if isinstance(event, TextDelta) and not held.is_set():
            (tmp_path / "sessions").rename(tmp_path / "moved")
            (tmp_path / "sessions").write_text("no folder")
            held.set()
        if isinstance(event, TurnEnded):
            await session.close()
    kinds = [type(e) for e in events]
    assert kinds.index(Notice) < kinds.index(AssistantAdded)
    (notice,) = [e.text for e in events if isinstance(e, Notice)]
    assert notice.endswith(f"{journal.session_id}.jsonl was moved or deleted.")


def test_a_file_put_in_the_place_of_a_session_is_left_alone(tmp_path: Path) -> None:
    journal = FileArchive(tmp_path).create(FOLDER)
    journal.append(started(1))
    path = tmp_path / f"{journal.session_id}.jsonl"
    other = tmp_path / "other"
    other.write_text("mine")
    other.replace(path)
    with pytest.raises(OSError, match="moved or deleted"):
        journal.append(started(2))
    assert path.read_text() == "mine"
