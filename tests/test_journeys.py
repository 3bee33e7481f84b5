"""One journey, three ways: the same script of a model's replies on the core, headless, and on the screen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.events import DurableEvent, ResultAdded
from agent.model.calls import LenientCalls
from agent.protocols import TextChunk
from agent.store.archive import FileArchive
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools, tool_schemas
from agent.tui.app import DflashApp
from agent.tui.composer import Composer
from agent.wiring.options import Options
from agent.wiring.parts import Parts
from agent.workspace.paths import Workspace
from tests.fakes.core import MemoryJournal, ScriptedModel, Step, call, finish, open_session
from tests.fakes.llama import FakeLlama, calls, say

JOURNEYS = sorted((Path(__file__).parent / "journeys").glob("*.json"))


@pytest.fixture(params=JOURNEYS, ids=lambda p: p.stem)
def journey(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads(request.param.read_text(encoding="utf-8"))


def check(journey: dict[str, Any], events: list[DurableEvent], project: Path) -> None:
    assert [type(e).__name__ for e in events] == journey["events"]
    results = [e for e in events if isinstance(e, ResultAdded)]
    for wanted, result in zip(journey["results"], results, strict=True):
        assert (result.tool, result.failed) == (wanted["tool"], wanted["failed"]), result.text
        assert wanted.get("has", "") in result.text
    for name, content in journey["files"].items():
        assert (project / name).read_text(encoding="utf-8") == content


def fake_replies(journey: dict[str, Any]) -> list[Any]:
    return [
        calls(*((n, a) for n, a in reply["calls"]), text=reply.get("say", ""))
        if "calls" in reply
        else say(reply["say"])
        for reply in journey["replies"]
    ]


async def test_on_the_core(journey: dict[str, Any], tmp_path: Path) -> None:
    replies: list[list[Step]] = []
    for number, reply in enumerate(journey["replies"]):
        said: list[Step] = [TextChunk(reply["say"])] if "say" in reply else []
        made = [call(name, f"c{number}-{n}", n, **a) for n, (name, a) in enumerate(reply.get("calls", []))]
        replies.append([*said, *made, finish("tool_calls" if made else "stop")])
    book = ProcessBook()
    tools = build_tools(Workspace(tmp_path), os.environ, tmp_path / ".logs", book)
    journal = MemoryJournal()
    session = open_session(ScriptedModel(*replies), *tools, journal=journal, reader=LenientCalls())  # type: ignore[arg-type]
    session.submit(journey["prompt"])
    await session.idle()
    await session.close()
    await book.stop_all()
    check(journey, journal.events, tmp_path)
    assert json.loads(tool_schemas(tools))


def test_headless(journey: dict[str, Any], tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    with FakeLlama(fake_replies(journey)) as server:
        done = subprocess.run(
            [
                *(sys.executable, "-P", "-m", "agent", "--server", server.url, "--permission-mode", "auto"),
                *("--output-format", "json", "-p", journey["prompt"]),
            ],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home)},
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
        )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["text"] == journey["answer"]
    archive = FileArchive(home / "state" / "sessions")
    check(journey, list(archive.load(result["session"])), project)


async def test_on_the_screen(journey: dict[str, Any], tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    with FakeLlama(fake_replies(journey)) as server:
        options = Options(project, server=server.url, mode="auto")
        parts = Parts(options, {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home)}, can_ask=True)
        app = DflashApp(parts.open_session, profile_label="attached", folder=project)
        async with app.run_test(size=(100, 40)) as pilot:
            app.screen.query_one(Composer).insert(journey["prompt"])
            await pilot.pause()
            await pilot.press("enter")
            assert parts.session is not None
            await parts.session.idle()
            events = list(parts.session.past)
            assert parts.session.endpoint is not None and parts.session.endpoint.n_ctx == server.n_ctx
        await parts.close()
    check(journey, events, project)
