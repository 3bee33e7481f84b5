"""Every fault of a model server, on the screen: what is said about it, what stays, and that the session goes on, also
after a restart. The server refuses any history that a real one would refuse."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.events import AssistantAdded, DurableEvent, ResultAdded, TurnEnded
from agent.tui.app import DflashApp
from agent.tui.cells.entries import entry_strips
from agent.tui.chat import Chat
from agent.wiring.options import Options
from agent.wiring.parts import Parts
from tests.fakes.llama import FakeLlama, Reply, say

FAULTS = sorted((Path(__file__).parent / "journeys" / "faults").glob("*.json"))


def reply_of(steps: list[dict[str, Any]]) -> Reply:
    return [s | {"raw": s["raw"].encode()} if "raw" in s else s for s in steps for _ in range(s.get("times", 1))]


@asynccontextmanager
async def on_the_screen(
    server: FakeLlama, tmp_path: Path, **options: Any
) -> AsyncIterator[tuple[Parts, Chat, Callable[[str], Any]]]:
    """`ask` sends a prompt and waits for the end of its turn."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home)}
    parts = Parts(Options(project, server=server.url, mode="auto", **options), env, can_ask=True)
    app = DflashApp(parts.open_session, profile_label="attached", folder=project)
    async with app.run_test(size=(100, 60)) as pilot:

        async def ask(prompt: str) -> list[DurableEvent]:
            assert parts.session is not None
            known = len(parts.session.past)
            app.chat.composer.insert(prompt)
            await pilot.press("enter")
            await parts.session.idle()
            await pilot.pause(0.15)  # the last flush of the screen
            return list(parts.session.past[known:])

        yield parts, app.chat, ask
    await parts.close()


def seen(chat: Chat) -> str:
    """All that is in the transcript, unwrapped and unfolded."""
    return "\n".join(s.text.rstrip() for e in chat.picture.entries for s in entry_strips(e, 10_000, True))


@pytest.mark.parametrize("path", FAULTS, ids=lambda p: p.stem)
async def test_a_fault_is_said_and_the_session_goes_on(path: Path, tmp_path: Path) -> None:
    journey = json.loads(path.read_text(encoding="utf-8"))
    replies = [*(reply_of(r) for r in journey["replies"]), say("went on"), say("went on after a restart")]
    with FakeLlama(replies, strict=True) as server:
        async with on_the_screen(server, tmp_path) as (_, chat, ask):
            events = await ask("go")
            assert len(server.requests) == journey["requests"]
            end = events[-1]
            assert isinstance(end, TurnEnded)
            assert (end.outcome, end.kind) == (journey["outcome"], journey["kind"]), end.detail
            assert [[e.tool, e.failed] for e in events if isinstance(e, ResultAdded)] == journey["results"]
            answers = [e.message.text for e in events if isinstance(e, AssistantAdded) and e.message.text]
            assert journey["kept"] in (answers[-1:] or [""])
            screen = seen(chat)
            assert not [words for words in journey["shows"] if words not in screen], screen
            await ask("and now?")
            assert "went on" in seen(chat)
        async with on_the_screen(server, tmp_path, resume_last=True) as (_, chat, ask):
            await ask("and after a restart?")
            assert "went on after a restart" in seen(chat)
    assert not (tmp_path / "project" / "SHOULD_NOT_EXIST").exists()
    ran = tmp_path / "project" / "ran"
    assert not ran.exists() or ran.read_text() == "x\n"
