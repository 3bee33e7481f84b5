"""What in a message is a mention, and what goes with the message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agent.core.mentions import being_written, mentioned, spelled
from agent.events import TurnEnded
from agent.protocols import Offered
from tests.fakes.core import FakeTool, ScriptedModel, call, calls, open_session, text


def names(words: str) -> list[str]:
    return [m.names[0] for m in mentioned(words)]


@pytest.mark.parametrize(
    "words",
    [
        "write to ada@example.com",
        "git clone git@github.com:x/y.git",
        "import x from '@/components/x'",
        'in package.json: "@types/node": "^20"',
        "use `@src/x.py` literally",
        "```\nsee @src/x.py\n```\nwhat is that?",
        "```\nnever closed @src/x.py",
        "a lone @ sign, and @-@ or @!",
        "class A:\n    @property\n    def b(self): ...",
        "@dataclass\n@final\nclass A: ...",
    ],
)
def test_what_only_looks_like_a_mention_is_none(words: str) -> None:
    assert names(words) == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("@src/x.py", ["src/x.py"]),
        ("look at @src/x.py, (@docs/) and @README.md.", ["src/x.py,", "docs/)", "README.md."]),
        ('and @"my notes/to do.txt" too', ["my notes/to do.txt"]),
        ("@a.py @a.py. @a.py", ["a.py"]),
        ("see\n@src/x.py\nfor it", ["src/x.py"]),
        ("@docs:file:///a/b.txt", ["docs:file:///a/b.txt"]),
    ],
)
def test_a_mention_is_found_where_a_word_begins(words: str, found: list[str]) -> None:
    assert names(words) == found


def test_signs_at_the_end_may_belong_to_the_sentence() -> None:
    assert next(mentioned("(see @src/x.py).")).names == ("src/x.py).", "src/x.py)", "src/x.py")
    assert next(mentioned("@src/")).names == ("src/",)


@pytest.mark.parametrize(
    ("words", "certain"),
    [
        ("@src/x.py", True),
        ("@x.toml", True),
        ('@"x"', True),
        ("@ada thinks so", False),
        ('@app.get("/x")', False),
        ("@pytest.fixture", False),
    ],
)
def test_only_what_must_be_meant_is_missed_when_it_is_not_there(words: str, certain: bool) -> None:
    assert next(mentioned(words)).certain is certain


def test_the_mention_at_the_cursor_is_being_written() -> None:
    assert being_written("see @sr and more", 7) == (4, "sr")
    assert being_written("see @", 5) == (4, "")
    assert being_written('see @"my no', 11) == (4, "my no")
    assert being_written("ada@exam", 8) is None and being_written("see @src ", 9) is None
    assert spelled("a/b.py") == "@a/b.py" and spelled("a b.py") == '@"a b.py"'


class Slow:
    """Everything of this kind is shown by a tool that a test holds up."""

    def __init__(self, tool: FakeTool) -> None:
        self.tool = tool

    def find(self, name: str) -> Any:
        return self.tool, self.tool.params(value=name)

    async def offers(self, written: str) -> Sequence[Offered]:
        return ()


async def test_a_stop_while_a_mention_is_read_keeps_the_message_as_it_was_written() -> None:
    hang = asyncio.Event()
    model = ScriptedModel(text("later"))
    session = open_session(model, mentionable=(Slow(FakeTool("read", kind="read", hang=hang)),))
    heard = session.subscribe()
    session.submit("see @slow.txt")
    while session._running is None:
        await asyncio.sleep(0)
    await session.cancel()
    assert not model.requests
    session.submit("go on")
    await session.idle()
    assert [m.text for m in model.requests[0].messages] == ["see @slow.txt", "go on"]
    await session.close()
    ends = [e.outcome async for e in heard if isinstance(e, TurnEnded)]
    assert ends == ["interrupted", "done"]


async def test_what_steers_a_turn_may_mention_things_too() -> None:
    hang = asyncio.Event()
    tool = FakeTool(act=lambda value, ctx: f"ran {value}", hang=hang)
    model = ScriptedModel(calls(call("bash", value="ls")), text("done"))
    session = open_session(model, tool, mentionable=(Slow(FakeTool("read", lambda v, _: f"text of {v}", "read")),))
    session.submit("go")
    while session._running is None or not session._history.open_calls():
        await asyncio.sleep(0)
    session.steer("and @notes.md")
    hang.set()
    await session.idle()
    last = model.requests[1].messages[-1]
    assert last.text == "and @notes.md\n\n[The user mentions notes.md. It holds:]\ntext of notes.md"
    assert last.shown == "and @notes.md"  # type: ignore[union-attr]
    await session.close()
