"""What waits for the user's choice: a question of the model's, its plan; and its list of steps."""

from __future__ import annotations

from agent.commands.base import Registry
from agent.commands.changes import change_commands
from agent.protocols import TextChunk
from agent.tools.ask import Ask
from agent.tools.diff import unified
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools
from agent.tools.todo import Todo
from agent.tui.picture import Call
from agent.workspace.checkpoints import Checkpoints
from agent.workspace.paths import Workspace
from tests.fakes import core
from tests.tui.test_screen import ended, rows, say, screen, until, write


def said(model) -> list[str]:
    return [m.shown or m.text for m in model.requests[-1].messages if type(m).__name__ == "UserMessage"]


def results(model) -> list[str]:
    return [m.text for m in model.requests[-1].messages if hasattr(m, "call_id")]


def question() -> list:
    return core.calls(core.call("ask", "c1", question="Which one?", options="red\ngreen\nblue"))


async def test_a_question_waits_and_is_answered_by_choosing_an_option():
    async with screen(question(), say("fine"), tools=(Ask(),), mode="ask", first_prompt="go") as (chat, pilot, model):
        await until(pilot, lambda: chat.docks.question.has_focus)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "fine" in rows(chat) and chat.composer.has_focus)
        assert results(model) == ["The user answers: green"]
        assert not chat.docks.question.display


async def test_a_question_is_answered_by_a_digit_or_in_own_words():
    script = (question(), question_two(), say("fine"))
    async with screen(*script, tools=(Ask(),), mode="ask", first_prompt="go") as (chat, pilot, model):
        await until(pilot, lambda: chat.docks.question.has_focus)
        await pilot.press("3")
        await until(pilot, lambda: chat.docks.question.asked is not None and chat.docks.question.asked.text == "And?")
        await write(pilot, "ye no")
        assert chat.docks.question.asked is not None
        await pilot.press("enter")
        await until(pilot, lambda: "fine" in rows(chat))
        assert results(model) == ["The user answers: blue", "The user answers: ye no"]


def question_two() -> list:
    return core.calls(core.call("ask", "c2", question="And?", options=["yes", "no"]))


async def test_escape_at_a_question_stops_the_turn():
    async with screen(question(), tools=(Ask(),), mode="ask", first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: chat.docks.question.has_focus)
        await pilot.press("escape")
        await until(pilot, lambda: ended(chat) and not chat.docks.question.display)
        assert "Interrupted" in rows(chat)


async def test_nobody_to_ask_is_told_to_the_model():
    model = core.ScriptedModel(question(), say("done"))
    session = core.open_session(model, Ask(), mode="auto", can_ask=False)
    session.submit("go")
    await session.idle()
    assert "Nobody is there" in results(model)[0]
    await session.close()


def plan_turn() -> tuple[list, ...]:
    return (say("1. Look\n2. Do"), say("carried out"))


async def test_a_plan_is_accepted_and_carried_out():
    async with screen(*plan_turn(), mode="plan", first_prompt="plan it") as (chat, pilot, model):
        await until(pilot, lambda: chat.docks.question.has_focus)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "carried out" in rows(chat))
        assert chat.session.mode == "accept-edits"
        assert said(model) == ["plan it", "Carry out the plan."]
        notes = [m.text for m in model.requests[-1].messages if type(m).__name__ == "UserMessage"]
        assert "Plan mode" in notes[0] and "over" in notes[1]
        first, last = model.requests[0].messages, model.requests[-1].messages
        assert last[: len(first)] == first
        assert model.requests[0].system == model.requests[-1].system
        assert model.requests[0].tools == model.requests[-1].tools


async def test_a_plan_can_be_changed_before_it_is_carried_out():
    async with screen(*plan_turn(), mode="plan", first_prompt="plan it") as (chat, pilot, model):
        await until(pilot, lambda: chat.docks.question.has_focus)
        await pilot.press("3")
        await until(pilot, lambda: chat.composer.has_focus and "2. Do" in chat.composer.text)
        await write(pilot, "3 more")
        await pilot.press("enter")
        await until(pilot, lambda: "carried out" in rows(chat))
        assert said(model)[-1].endswith("1. Look\n2. Do\n3 more")
        assert chat.session.mode == "ask"


async def test_a_plan_is_refused_by_saying_what_to_change_or_by_staying():
    script = (say("1. Look"), say("2. Better"), say("third"))
    async with screen(*script, mode="plan", first_prompt="plan it") as (chat, pilot, model):
        await until(pilot, lambda: chat.docks.question.has_focus)
        await write(pilot, "no not so")
        await pilot.press("enter")
        await until(pilot, lambda: "Better" in rows(chat) and chat.docks.question.has_focus)
        assert chat.session.mode == "plan"
        assert said(model) == ["plan it", "no not so"]
        await pilot.press("4")
        await until(pilot, lambda: chat.composer.has_focus and not chat.docks.question.display)
        assert chat.session.mode == "plan"


async def test_the_list_of_steps_is_seen_until_all_is_done():
    first = "[x] look\n[>] build it\n[ ] test it"
    script = (
        core.calls(core.call("todo", "t1", items=first)),
        [TextChunk("half way"), core.finish("stop")],
        core.calls(core.call("todo", "t2", items=["[x] look", "[x] build it", "[x] test it"])),
        say("ready"),
    )
    async with screen(*script, tools=(Todo(),), mode="ask", first_prompt="go") as (chat, pilot, model):
        await until(pilot, lambda: "half way" in rows(chat) and chat.docks.todo.display)
        shown = [chat.docks.todo.render_line(y).text.rstrip() for y in range(chat.docks.todo.size.height)]
        assert shown == ["1 of 3 done", "✓ look", "▸ build it", "○ test it"]
        assert results(model) == ["1 of 3 done."]
        await write(pilot, "on")
        await pilot.press("enter")
        await until(pilot, lambda: "ready" in rows(chat) and not chat.docks.todo.display)


async def test_the_list_of_steps_is_there_again_after_a_restart():
    journal = core.MemoryJournal()
    model = core.ScriptedModel(core.calls(core.call("todo", "t1", items="[ ] one\n[ ] two")), say("half"))
    session = core.open_session(model, Todo(), journal=journal)
    session.submit("go")
    await session.idle()
    await session.close()
    async with screen(tools=(Todo(),), past=journal.events) as (chat, pilot, _):
        await until(pilot, lambda: chat.docks.todo.display)


async def test_several_edits_of_one_file_are_one_diff(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    tools = build_tools(Workspace(tmp_path), {}, tmp_path / "logs", ProcessBook())
    edits = [
        core.call("edit", f"e{n}", n, file="a.txt", find=f, replace=r)
        for n, (f, r) in enumerate((("one", "1"), ("two", "2")))
    ]
    async with screen(core.calls(*edits), say("done"), tools=tools, first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: ended(chat))
        first, last = [e for e in chat.picture.entries if isinstance(e, Call)]
        assert first.continued and not last.continued
        assert [line for line in last.preview.split("\n")[3:] if line[0] in "+-"] == ["-one", "-two", "+1", "+2"]
        assert rows(chat).count("-one") == 1


async def test_escape_twice_asks_before_it_undoes(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    points = Checkpoints(tmp_path / "points", root, "s", ())
    tools = build_tools(Workspace(root), {}, tmp_path / "logs", ProcessBook())
    script = (core.calls(core.call("write", "w1", file="a.txt", text="x\n")), say("done"))
    registry = Registry()
    async with screen(*script, tools=tools, checkpoints=points, commands=registry, first_prompt="make it") as (
        chat,
        pilot,
        _,
    ):
        registry.add(*change_commands(lambda: chat.session, unified))
        await until(pilot, lambda: ended(chat))
        await pilot.press("escape", "escape")
        assert not chat.docks.question.display
        chat.choices._ended = chat.choices._escaped = -9.0
        await pilot.press("escape", "escape")
        await until(pilot, lambda: chat.docks.question.has_focus)
        assert "a.txt" in chat.docks.question.asked.text
        await pilot.press("2")
        await until(pilot, lambda: not (root / "a.txt").exists() and "Undone: a.txt." in rows(chat))
        assert chat.composer.text == "make it"
        chat.composer.clear()
        await write(pilot, "/redo")
        await pilot.press("enter")
        await until(pilot, lambda: (root / "a.txt").exists() and "Done again: a.txt." in rows(chat))
        await write(pilot, "/diff")
        await pilot.press("enter")
        await until(pilot, lambda: "+x" in rows(chat).split("Done again")[1])
        assert "+++ b/a.txt" in rows(chat).split("Done again")[1]
