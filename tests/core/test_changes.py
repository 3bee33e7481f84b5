"""Undo, redo and diff of a session: files come back, and the model is told with the next message."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agent.codec import decode, encode
from agent.commands.base import Diff, Said
from agent.commands.changes import change_commands
from agent.core.session import Session
from agent.errors import AgentError
from agent.events import FilesRestored
from agent.tools.diff import unified
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools
from agent.workspace.checkpoints import Checkpoints
from agent.workspace.paths import Workspace
from tests.fakes import core


class Bench:
    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        self.root.mkdir()
        (self.root / "a.txt").write_text("one\n")
        self.base = base
        self.journal = core.MemoryJournal()

    def session(self, model: core.ScriptedModel, **more) -> Session:
        tools = build_tools(Workspace(self.root), dict(os.environ), self.base / "logs", ProcessBook())
        points = Checkpoints(self.base / "points", self.root, "s", ())
        return core.open_session(model, *tools, journal=self.journal, checkpoints=points, **more)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path.resolve())


def change() -> list:
    edit = core.call("edit", "c1", 0, file="a.txt", find="one", replace="two")
    return core.calls(edit, core.call("bash", "c2", 1, command="echo x > b.txt"))


async def said(session: Session, text: str) -> None:
    session.submit(text)
    await session.idle()


async def test_a_turn_is_undone_after_a_restart_and_the_model_hears_of_it_once(bench: Bench) -> None:
    first = bench.session(core.ScriptedModel(change(), core.text("done")))
    await said(first, "go")
    await first.close()
    assert sorted(p.name for p in bench.root.iterdir()) == ["a.txt", "b.txt"]
    model = core.ScriptedModel(core.text("ok"), core.text("ok"))
    session = bench.session(model, past=bench.journal.events)
    undo, redo = change_commands(lambda: session, unified)[1:]
    answer = await undo.run("")
    assert isinstance(answer, Said) and answer.text == "Undone: a.txt, b.txt."
    assert (bench.root / "a.txt").read_text() == "one\n"
    assert not (bench.root / "b.txt").exists()
    await said(session, "and now")
    await said(session, "further")
    texts = [m.text for m in model.requests[-1].messages if hasattr(m, "shown")]
    assert texts[1:] == ["and now\n\n[The user has undone your changes of turn 1 to: a.txt, b.txt.]", "further"]
    event = next(e for e in bench.journal.events if isinstance(e, FilesRestored))
    assert decode(encode(event)) == event
    assert isinstance(answer := await redo.run(""), Said) and answer.text.startswith("Done again")
    assert (bench.root / "b.txt").exists()
    await session.close()


async def test_the_diff_shows_what_differs_and_says_where_nothing_does(bench: Bench) -> None:
    session = bench.session(core.ScriptedModel(change(), core.text("done")))
    diff = change_commands(lambda: session, unified)[0]
    answer = await diff.run("")
    assert isinstance(answer, Said) and "no file" in answer.text
    await said(session, "go")
    answer = await diff.run("last")
    assert isinstance(answer, Diff)
    assert [x for x in answer.text.split("\n") if x[:1] in "+-"] == [
        "--- a/a.txt", "+++ b/a.txt", "-one", "+two", "--- a/b.txt", "+++ b/b.txt", "+x",
    ]  # fmt: skip
    await session.close()


async def test_nothing_is_undone_while_a_turn_runs_or_where_nothing_was_changed(bench: Bench) -> None:
    wait = asyncio.Event()
    session = bench.session(core.ScriptedModel([wait, *core.text("done")]))
    with pytest.raises(AgentError, match="Nothing to undo"):
        await session.changes.restore()
    session.submit("go")
    await asyncio.sleep(0)
    with pytest.raises(AgentError, match="stop it first"):
        await session.changes.restore()
    wait.set()
    await session.idle()
    await session.close()


async def test_a_stopped_turn_can_be_undone(bench: Bench) -> None:
    slow = core.calls(core.call("bash", "c1", command="echo 1 > b.txt; sleep 30"))
    session = bench.session(core.ScriptedModel(slow))
    subscription = session.subscribe()
    session.submit("go")
    async for _ in subscription:
        if (bench.root / "b.txt").exists():
            break
    await session.cancel()
    done = await session.changes.restore()
    assert done.paths == ("b.txt",)
    assert not (bench.root / "b.txt").exists()
    await session.close()
