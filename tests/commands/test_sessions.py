"""Leaving a conversation and taking it along, with real journals."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.commands.base import Command, Open, Said
from agent.commands.sessions import ago, session_commands
from agent.core.session import Session
from agent.errors import ConfigError
from agent.protocols import TextChunk
from agent.store.archive import FileArchive
from tests.fakes import core


@pytest.fixture
def archive(tmp_path: Path) -> FileArchive:
    return FileArchive(tmp_path / "sessions")


async def talk(archive: FileArchive, folder: Path, *words: str) -> Session:
    model = core.ScriptedModel(*([TextChunk(f"about {w}"), core.finish("stop")] for w in words))
    session = core.open_session(model, journal=archive.create(folder))
    for word in words:
        session.submit(word)
        await session.idle()
    return session


def commands(session: Session, archive: FileArchive, folder: Path) -> dict[str, Command]:
    return {c.name: c for c in session_commands(lambda: session, archive, folder)}


async def test_another_session_of_the_folder_is_offered_and_opened(archive: FileArchive, tmp_path: Path) -> None:
    old, elsewhere = await talk(archive, tmp_path, "the sea"), await talk(archive, tmp_path / "x", "hills")
    here = await talk(archive, tmp_path, "trees")
    resume = commands(here, archive, tmp_path)["resume"]
    assert resume.complete("") == [(old.id, "now  the sea")]
    assert resume.complete("SEA") == resume.complete("")
    assert resume.complete("hills") == []
    assert await resume.run("") == Open(old.id) == await resume.run(old.id)
    assert await resume.run(elsewhere.id) == Open(elsewhere.id)
    assert isinstance(await resume.run(here.id), Said)
    with pytest.raises(ConfigError, match="No session 'nope'"):
        await resume.run("nope")
    for session in (old, elsewhere, here):
        await session.close()


async def test_a_fork_goes_on_by_itself(archive: FileArchive, tmp_path: Path) -> None:
    session = await talk(archive, tmp_path, "the sea")
    answer = await commands(session, archive, tmp_path)["fork"].run("")
    assert isinstance(answer, Open) and answer.session_id not in (None, session.id)
    await session.close()
    assert answer.session_id
    assert archive.load(answer.session_id) == archive.load(session.id)
    archive.reopen(answer.session_id).close()
    archive.delete(answer.session_id)
    assert [i.id for i in archive.list(tmp_path)] == [session.id]


async def test_a_session_that_is_open_is_not_deleted(archive: FileArchive, tmp_path: Path) -> None:
    session = await talk(archive, tmp_path, "the sea")
    with pytest.raises(ConfigError, match="open in another window"):
        archive.delete(session.id)
    await session.close()


async def test_it_is_exported_as_markdown_and_never_over_another_file(archive: FileArchive, tmp_path: Path) -> None:
    session = await talk(archive, tmp_path, "the ```` sea", "trees")
    export = commands(session, archive, tmp_path)["export"]
    await export.run("talk.md")
    text = (tmp_path / "talk.md").read_text()
    assert text.startswith("## User\n\nthe ```` sea\n\n## Assistant\n\nabout the ```` sea\n")
    with pytest.raises(ConfigError, match="is there already"):
        await export.run("talk.md")
    assert (tmp_path / "talk.md").read_text() == text
    with pytest.raises(ConfigError, match="Cannot write"):
        await export.run("nowhere/talk.md")
    await session.close()


async def test_what_a_tool_said_cannot_break_out_of_its_fence(archive: FileArchive, tmp_path: Path) -> None:
    tool = core.FakeTool()
    model = core.ScriptedModel(
        core.calls(core.call("bash", "c1", value="a\n```\n# b")), [TextChunk("done"), core.finish("stop")]
    )
    session = core.open_session(model, tool, mode="auto", journal=archive.create(tmp_path))
    session.submit("go")
    await session.idle()
    await commands(session, archive, tmp_path)["export"].run("t.md")
    assert "````" in (tmp_path / "t.md").read_text()
    await session.close()


def test_time_is_told_in_its_largest_unit() -> None:
    assert [ago(s) for s in (0, 59, 60, 3599, 7200, 200_000)] == ["now", "now", "1 min", "59 min", "2 h", "2 d"]
