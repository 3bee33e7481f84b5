"""What stands at the beginning of every request is fixed for a session; what changes is told in the newest message."""

from __future__ import annotations

import json

from agent.core.prefix import AS_BEFORE, HEADING, TOLD, news
from agent.core.session import Session
from agent.events import Compacted
from agent.messages import Prefix, UserMessage
from agent.protocols import ModelRequest
from tests.fakes.core import MemoryJournal, ScriptedModel, open_session, text


def tools(*names: str, **descriptions: str) -> str:
    functions = [{"name": n, "description": descriptions.get(n, "does it"), "parameters": {}} for n in names]
    return json.dumps([{"type": "function", "function": f} for f in functions])


class Window:
    """A session that is left and opened again, with whatever has changed meanwhile."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.session: Session | None = None

    async def say(self, words: str, system: str, tools_json: str = tools("bash")) -> ModelRequest:
        """The request of one turn in a session opened with these."""
        model = ScriptedModel(text("so it is"))
        session = open_session(
            model,
            journal=self.journal,
            tools_json=tools_json,
            system=system,
            past=tuple(self.journal.events),
            prefix=self.journal.prefix,
        )
        session.submit(words)
        await session.idle()
        self.session = session
        await session.close()
        return model.requests[0]


async def test_a_resumed_session_begins_with_the_bytes_it_began_with_and_is_told_what_has_changed() -> None:
    window = Window()
    first = await window.say("hello", "Be brief.\nUse tabs.")
    later = await window.say("go on", "Be brief.\nUse spaces.", tools("bash", "grep", bash="does more"))
    assert (later.system, later.tools) == (first.system, first.tools)
    assert later.messages[: len(first.messages)] == first.messages
    newest = later.messages[-1]
    assert isinstance(newest, UserMessage) and newest.shown == "go on"
    assert newest.text.startswith(f"go on\n\n{HEADING}\n-Use tabs.\n+Use spaces.\n")
    assert 'The tool bash is now: {"name": "bash", "description": "does more"' in newest.text
    assert "grep" not in newest.text, "a tool that the engine's grammar does not know cannot be called"


async def test_a_change_is_told_once_and_its_end_as_well() -> None:
    window = Window()
    await window.say("hello", "Old.")
    assert HEADING in (await window.say("one", "New.")).messages[-1].text
    assert (await window.say("two", "New.")).messages[-1].text == "two"
    assert "+Newer." in (await window.say("three", "Newer.")).messages[-1].text
    assert (await window.say("four", "Old.")).messages[-1].text == f"four\n\n{AS_BEFORE}"
    assert (await window.say("five", "Old.")).messages[-1].text == "five"


async def test_a_session_from_before_prefixes_were_noted_gets_one_when_it_goes_on() -> None:
    window = Window()
    await window.say("hello", "Old.")
    window.journal.prefix = None
    assert (await window.say("go on", "New.")).system == "New."
    assert window.journal.prefix == Prefix("New.", tools("bash"))


async def test_thinking_counts_for_the_beginning_only_until_something_was_said() -> None:
    session = open_session(model := ScriptedModel(text("one"), text("two")), thinking=False)
    session.set_thinking(True)
    session.submit("hello")
    await session.idle()
    session.set_thinking(False)
    session.submit("go on")
    await session.idle()
    await session.close()
    assert [(r.think_first, r.thinking) for r in model.requests] == [(True, True), (True, False)]


async def test_a_compacted_conversation_begins_with_what_holds_now() -> None:
    window = Window()
    await window.say("hello", "Old.")
    model = ScriptedModel(text("yes"))
    options = {"tools_json": tools("bash"), "system": "New.", "prefix": window.journal.prefix}
    session = open_session(model, journal=window.journal, **options)
    session.publish(Compacted("they said hello", 2))
    session.submit("go on")
    await session.idle()
    await session.close()
    assert model.requests[0].system == "New." and model.requests[0].messages[-1].text == "go on"
    assert window.journal.prefix == Prefix("New.", tools("bash"))


def test_lost_tools_are_told_and_long_changes_are_cut() -> None:
    told = news(Prefix("s", tools("bash", "grep")), Prefix("s", tools("bash")), [])
    assert "no longer there: grep" in told
    long = news(Prefix("s", ""), Prefix("\n".join(f"line {n}" for n in range(2000)), ""), [])
    assert len(long) < TOLD + 200 and long.endswith("[the rest is left out]")
