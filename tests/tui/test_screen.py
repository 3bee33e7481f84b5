"""The screen with a real session and a model that plays a script."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from textual import events

from agent.commands.base import Ask, Command, Open, Registry, Said
from agent.core.rules import Rule, Rulebook
from agent.errors import ConfigError, ContextOverflow
from agent.protocols import CallChunk, TextChunk
from agent.tui.app import DflashApp
from agent.tui.cells.entries import entry_strips
from agent.tui.picture import Answer, End, Note
from tests.fakes import core


@contextlib.asynccontextmanager
async def screen(*replies, tools=(), size=(100, 30), mode="auto", **options):
    model = core.ScriptedModel(*replies)
    inner = {k: options.pop(k) for k in ("past", "rules", "checkpoints") if k in options}
    app = DflashApp(
        lambda: core.open_session(model, *tools, mode=mode, **inner),
        title="dflash-agent",
        profile_label="smoke",
        folder=Path("/project"),
        **options,
    )
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.chat.session is not None)
        yield app.chat, pilot, model
        await app.close_session()
    assert app.return_code in (0, None, 130)


def say(words: str) -> list:
    return [TextChunk(words), core.finish("stop")]


async def until(pilot, condition, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await pilot.pause(0.02)


def rows(chat) -> str:
    return "\n".join(chat.transcript.render_line(y).text.rstrip() for y in range(chat.transcript.size.height))


def ended(chat) -> bool:
    """The end of the turn is drawn."""
    blocks = chat.transcript._blocks
    return bool(blocks) and isinstance(blocks[-1].entry, End) and blocks[-1].version == blocks[-1].entry.version


def user_texts(model) -> list[str]:
    return [m.text for m in model.requests[-1].messages if type(m).__name__ == "UserMessage"]


async def write(pilot, text: str) -> None:
    for letter in text:
        await pilot.press("space" if letter == " " else letter)


async def test_a_message_is_answered_and_both_are_on_the_screen():
    async with screen(say("It is [bold]done[/bold].")) as (chat, pilot, _):
        await write(pilot, "hi")
        await pilot.press("enter")
        await until(pilot, lambda: "It is [bold]done[/bold]." in rows(chat))
        assert "› hi" in rows(chat)
        assert chat.composer.text == ""


async def test_a_first_prompt_is_sent_by_itself():
    async with screen(say("hello"), first_prompt="go on") as (chat, pilot, model):
        await until(pilot, lambda: "hello" in rows(chat))
        assert user_texts(model) == ["go on"]


async def test_escape_stops_the_turn_and_keeps_what_was_said():
    wait = asyncio.Event()
    async with screen([TextChunk("some "), TextChunk("text"), wait], first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: "text" in rows(chat))
        for _ in range(5):
            await pilot.press("escape")
        await until(pilot, lambda: any(isinstance(e, End) for e in chat.picture.entries))
        await until(pilot, lambda: "Interrupted" in rows(chat))
        assert [e.text for e in chat.picture.entries if isinstance(e, Answer)] == ["some text"]
        assert chat.is_running


async def test_a_question_is_answered_with_one_key():
    tool = core.FakeTool()
    script = (core.calls(core.call("bash", "c1", value="ls")), say("finished"))
    async with screen(*script, tools=(tool,), mode="ask", first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: chat.docks.approval.asked is not None and chat.docks.approval.has_focus)
        await pilot.press("y")
        await until(pilot, lambda: "finished" in rows(chat) and chat.composer.has_focus)
        assert tool.ran == ["ls"]


async def test_keys_of_someone_who_is_typing_do_not_answer_a_question():
    tool, wait = core.FakeTool(), asyncio.Event()
    script = ([wait, *core.calls(core.call("bash", "c1", value="ls"))], say("finished"))
    async with screen(*script, tools=(tool,), mode="ask", first_prompt="go") as (chat, pilot, _):
        await write(pilot, "ye")
        wait.set()
        await until(pilot, lambda: chat.docks.approval.asked is not None)
        await write(pilot, "sy")
        assert chat.docks.approval.asked is not None
        await until(pilot, lambda: chat.composer.text == "yesy")
        assert tool.ran == []


async def test_a_sentence_written_while_permission_is_asked_allows_nothing_and_is_sent():
    tool = core.FakeTool()
    script = (core.calls(core.call("bash", "c1", value="ls")), say("finished"))
    async with screen(*script, tools=(tool,), mode="ask", first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: chat.docks.approval.asked is not None and chat.docks.approval.has_focus)
        await pilot.press("d", "o")
        await until(pilot, lambda: chat.composer.text == "do" and chat.composer.has_focus)
        await write(pilot, " say why")
        assert chat.composer.text == "do say why"
        await pilot.press("enter")
        await until(pilot, lambda: chat.docks.approval.has_focus)
        assert tool.ran == [] and chat.docks.approval.asked is not None
        assert chat.picture.queue == (("do say why", "next"),)
        await pilot.press("y")
        await until(pilot, lambda: tool.ran == ["ls"])


async def test_a_big_paste_is_one_token_and_is_sent_whole():
    pasted = "\n".join(f"line [{n}]" for n in range(50_000))
    async with screen(say("read")) as (chat, pilot, model):
        await write(pilot, "see ")
        chat.composer.post_message(events.Paste(pasted))
        await until(pilot, lambda: "#1]" in chat.composer.text)
        assert chat.composer.text == "see [Pasted 50,000 lines #1]"
        await pilot.press("enter")
        await until(pilot, lambda: "read" in rows(chat))
        assert user_texts(model) == ["see " + pasted]


@pytest.mark.parametrize("pasted", ["\tline3", "\x1b[31mred", "a\x00b", "\u202eback", "one\x0btwo", "x\u00ady"])
async def test_what_cannot_be_shown_plainly_is_a_token_and_is_sent_whole(pasted):
    async with screen(say("read"), history=[pasted]) as (chat, pilot, model):
        chat.composer.post_message(events.Paste(pasted))
        await until(pilot, lambda: chat.composer.text)
        token = f"[Pasted {len(pasted)} characters #1]"
        assert chat.composer.text == token
        await pilot.press("ctrl+c", "up")
        assert chat.composer.text == token
        await pilot.press("enter")
        await until(pilot, lambda: "read" in rows(chat))
        assert user_texts(model) == [pasted]


async def test_a_paste_counts_its_lines_without_an_empty_last_one():
    async with screen() as (chat, pilot, _):
        chat.composer.post_message(events.Paste("".join(f"{n}\n" for n in range(40))))
        await until(pilot, lambda: chat.composer.text)
        assert chat.composer.text == "[Pasted 40 lines #1]"


async def test_what_joins_the_turn_and_what_waits_behind_it_are_told_apart():
    wait = asyncio.Event()
    async with screen([TextChunk("some"), wait], first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: "some" in rows(chat))
        for words, key in (("later", "alt+enter"), ("soon", "enter")):
            await write(pilot, words)
            await pilot.press(key)
        await until(pilot, lambda: "soon  next" in rows(chat) and "later  queued" in rows(chat))


async def test_up_in_an_empty_composer_takes_back_what_waits():
    wait = asyncio.Event()
    script = ([TextChunk("some"), wait, core.finish("stop")], say("fine"))
    async with screen(*script, first_prompt="go") as (chat, pilot, model):
        await until(pilot, lambda: "some" in rows(chat))
        for words, key in (("later", "alt+enter"), ("soon", "enter")):
            await write(pilot, words)
            await pilot.press(key)
        await until(pilot, lambda: "Up takes back what waits" in rows(chat))
        await pilot.press("up")
        assert chat.composer.text == "soon\n\nlater"
        await until(pilot, lambda: "Up takes back" not in rows(chat))
        wait.set()
        await until(pilot, lambda: ended(chat))
        assert len(model.requests) == 1


async def test_stopping_says_so_at_once_and_puts_what_waits_before_what_is_being_written():
    hang = asyncio.Event()
    script = (core.calls(core.call("bash", "c1", value="ls")),)
    async with screen(*script, tools=(core.FakeTool(hang=hang),), first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: any(getattr(e, "state", "") == "running" for e in chat.picture.entries))
        await write(pilot, "later")
        await pilot.press("alt+enter")
        await write(pilot, "half")
        chat.action_stop()
        await until(pilot, lambda: "Stopping" in chat.status.hint or ended(chat))
        await until(pilot, lambda: ended(chat))
        assert chat.composer.text == "later\n\nhalf"
        assert "Stopping" not in chat.status.hint


async def test_a_call_that_is_being_written_is_seen_and_stays_when_it_is_stopped():
    wait = asyncio.Event()
    pieces = [CallChunk(0, "c1", "write", '{"file": "a.py", "text": "one\\ntw'), wait]
    async with screen(pieces, first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: "write  a.py  writing · 2 lines" in rows(chat))
        await pilot.press("escape")
        await until(pilot, lambda: "write  a.py  broke off, not run · 2 lines" in rows(chat))
        assert "2  tw" in rows(chat)


async def test_a_message_that_does_not_fit_is_back_in_the_composer():
    big = "word " * 2000
    async with screen([ContextOverflow("no", 300_000, 8192)], say("read")) as (chat, pilot, model):
        chat.composer.post_message(events.Paste(big))
        await until(pilot, lambda: chat.composer.text)
        await pilot.press("enter")
        await until(pilot, lambda: "300000 tokens" in rows(chat) and chat.composer.text)
        assert chat.composer.whole() == big
        await pilot.press("ctrl+c")
        await write(pilot, "short")
        await pilot.press("enter")
        await until(pilot, lambda: "read" in rows(chat))
        assert user_texts(model) == ["short"]


async def test_history_is_recalled_at_the_first_line():
    sent: list[str] = []
    async with screen(say("a"), history=["older"], remember=sent.append) as (chat, pilot, _):
        await write(pilot, "new")
        await pilot.press("enter")
        await write(pilot, "draft")
        await pilot.press("up")
        assert chat.composer.text == "new"
        await pilot.press("up")
        assert chat.composer.text == "older"
        await pilot.press("down", "down")
        assert chat.composer.text == "draft"
        assert sent == ["new"]


async def test_an_unknown_command_names_the_known_ones():
    async with screen() as (chat, pilot, model):
        await write(pilot, "/nope")
        await pilot.press("enter")
        await until(pilot, lambda: any(isinstance(e, Note) and "/nope" in e.text for e in chat.picture.entries))
        assert model.requests == []


async def test_control_c_clears_then_asks_then_quits():
    async with screen() as (chat, pilot, _):
        await write(pilot, "x")
        await pilot.press("ctrl+c")
        assert chat.composer.text == ""
        await pilot.press("ctrl+c")
        assert "again" in chat.status.hint
        await pilot.press("ctrl+c")
        assert pilot.app.return_code == 130


async def test_shift_tab_changes_the_mode_of_the_session():
    async with screen() as (chat, pilot, _):
        await pilot.press("shift+tab")
        assert chat.session.mode == "ask"
        await until(pilot, lambda: chat.gauge.mode == "ask")


async def test_shift_tab_is_seen_to_act_where_the_line_has_no_room():
    async with screen(size=(24, 12), mode="plan") as (chat, pilot, _):
        chat.status.label = "a model with a long name"
        for mode in ("auto", "ask"):
            await pilot.press("shift+tab")
            await until(pilot, lambda mode=mode: mode in chat.status.render_line(0).text)


async def test_it_survives_every_size_and_is_whole_again():
    words = "中文 and " + "W" * 300 + " END"
    async with screen(say(words), first_prompt="go", size=(200, 50)) as (chat, pilot, _):
        await until(pilot, lambda: "END" in rows(chat) and ended(chat))
        before = rows(chat)
        for size in ((20, 6), (8, 4), (60, 10), (200, 50)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.05)
        await until(pilot, lambda: rows(chat) == before)
        await write(pilot, "still")
        assert chat.composer.text == "still"


async def test_a_selection_is_copied_as_plain_text():
    async with screen(say("copy me"), first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: not chat.session.running and "copy me" in rows(chat))
        y = next(n for n, row in enumerate(rows(chat).split("\n")) if "copy me" in row)
        await pilot.mouse_down(chat.transcript, offset=(3, y))
        await pilot.hover(chat.transcript, offset=(10, y))
        await pilot.mouse_up(chat.transcript, offset=(10, y))
        assert chat.get_selected_text() == "copy me"


async def test_an_ended_answer_is_laid_out_whole():
    words = "1. one\n\n   goes on here\n\n   ```python\n   x = 1\n   ```\n\n2. two"
    async with screen(say(words), first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: ended(chat))
        (answer,) = [b for b in chat.transcript._blocks if isinstance(b.entry, Answer)]
        await until(pilot, lambda: not answer.rough)
        whole = entry_strips(answer.entry, answer.width, False)
        assert [s.text for s in answer.strips] == [s.text for s in whole]
        assert chat.transcript.virtual_size.height == sum(len(b.strips) for b in chat.transcript._blocks) + len(
            chat.transcript.welcome
        )


async def test_an_idle_screen_writes_nothing():
    async with screen(say("done"), first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: ended(chat))
        assert not chat.composer.cursor_blink
        assert chat._ticking is not None and not chat._ticking._active.is_set()


async def test_a_bug_ends_the_screen_with_one_sentence_and_a_traceback_in_the_log(tmp_path, capsys):
    def broken():
        raise KeyError("what was not there")

    log = tmp_path / "logs" / "agent.log"
    app = DflashApp(broken, profile_label="smoke", folder=tmp_path, crash_log=log)
    async with asyncio.timeout(10):
        await app.run_async(headless=True, size=(80, 24))
    assert app.return_code == 1
    said = capsys.readouterr().err
    assert said.startswith("dflash-agent stopped: KeyError: 'what was not there'") and log.name in said
    assert "Traceback" not in said
    assert "Traceback" in log.read_text()


def notes(chat) -> str:
    return "\n".join(e.text for e in chat.picture.entries if isinstance(e, Note))


async def test_help_lists_every_command():
    async with screen() as (chat, pilot, _):
        await write(pilot, "/help")
        await pilot.press("enter")
        await until(pilot, lambda: "Esc stop the turn" in notes(chat) and "/quit (=/exit)" in notes(chat))


async def test_a_command_is_completed_and_run_with_enter_and_escape_closes_the_menu():
    async with screen() as (chat, pilot, model):
        await write(pilot, "/")
        await until(pilot, lambda: chat.composer.menu.display and chat.composer.menu.size.height == 4)
        await write(pilot, "he")
        await until(pilot, lambda: chat.composer.menu.size.height == 1)
        assert "/help" in chat.composer.menu.render_line(0).text
        await pilot.press("escape")
        assert not chat.composer.menu.display
        assert chat.composer.text == "/he"
        await write(pilot, "l")
        await pilot.press("enter")
        await until(pilot, lambda: "Esc stop the turn" in notes(chat))
        assert chat.composer.text == ""
        assert model.requests == []


async def test_enter_right_behind_the_last_letters_runs_what_was_written_not_what_was_offered():
    heard: list[str] = []

    async def run(argument: str):
        heard.append(argument)

    commands = Registry([Command("speed", "figures", run, "[turn]")])
    async with screen(commands=commands) as (chat, pilot, _):
        await write(pilot, "/spe")
        await until(pilot, lambda: chat.composer.menu.chosen is not None)
        for key, letter in (("e", "e"), ("d", "d"), ("enter", None)):
            chat.composer.post_message(events.Key(key, letter))
        await until(pilot, lambda: heard == [""])


async def test_tab_completes_a_command_and_its_argument():
    async def run(argument):
        return Said(f"color is {argument}")

    words = ("red", "green")
    color = Command("color", "what", run, usage="NAME", complete=lambda w: [n for n in words if n.startswith(w)])
    async with screen(commands=Registry([color])) as (chat, pilot, _):
        await write(pilot, "/co")
        await pilot.press("tab")
        assert chat.composer.text == "/color "
        await until(pilot, lambda: chat.composer.menu.size.height == 2)
        await pilot.press("down", "tab")
        assert chat.composer.text == "/color green"
        await pilot.press("enter")
        await until(pilot, lambda: "color is green" in notes(chat))


@pytest.mark.parametrize("written", ["/mcp", "/servers"])
async def test_enter_runs_the_command_that_is_written_and_not_one_that_begins_like_it(written: str):
    heard: list[str] = []

    def command(name: str, *aliases: str) -> Command:
        async def run(argument: str):
            heard.append(name)

        return Command(name, "what", run, "[NAME]", aliases)

    commands = Registry([command("mcp", "servers"), command("mcp-server"), command("servers-of-mine")])
    async with screen(commands=commands) as (chat, pilot, _):
        await write(pilot, written)
        await until(pilot, lambda: chat.composer.menu.size.height > 1)
        assert f"▸ {written} " in chat.composer.menu.render_line(0).text
        await pilot.press("enter")
        await until(pilot, lambda: heard == ["mcp"])
        await write(pilot, written)
        await until(pilot, lambda: chat.composer.menu.size.height > 1)
        await pilot.press("down", "tab")
        assert chat.composer.text.startswith(f"{written}-")


async def test_a_command_may_speak_to_the_model_in_the_users_place():
    async def run(argument):
        return Ask(f"Make {argument}.")

    async with screen(say("made"), commands=Registry([Command("make", "make it", run)])) as (chat, pilot, model):
        await write(pilot, "/make two")
        await pilot.press("enter")
        await until(pilot, lambda: "made" in rows(chat))
        assert user_texts(model) == ["Make two."]


async def test_a_new_conversation_takes_the_place_of_the_old_one_and_the_keys_stay():
    opened = []
    model = core.ScriptedModel(say("first"), say("second"))

    def reopen(session_id):
        opened.append(session_id)
        return core.open_session(model)

    async def new(_argument):
        return Open(None)

    async def other(argument):
        return Open(argument)

    commands = Registry([Command("new", "", new), Command("resume", "", other, usage="ID")])
    app = DflashApp(
        lambda: core.open_session(model),
        reopen=reopen,
        commands=commands,
        profile_label="smoke",
        folder=Path("/project"),
        first_prompt="one",
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "first" in rows(app.chat) and not app.chat.session.running)
        old = app.chat
        await write(pilot, "/new")
        await pilot.press("enter")
        await until(pilot, lambda: app.chat is not old and app.chat.session is not None)
        await until(pilot, lambda: app.screen is app.chat and "first" not in rows(app.chat))
        await write(pilot, "two")
        await pilot.press("enter")
        await until(pilot, lambda: "second" in rows(app.chat))
        assert [len(r.messages) for r in model.requests] == [1, 1]
        await pilot.press("up", "up")
        assert app.chat.composer.text == "/new"
        assert opened == [None]
        await app.close_session()


async def test_a_session_that_cannot_be_opened_leaves_the_running_one():
    def reopen(session_id):
        raise ConfigError("Session x is open in another window.")

    async def resume(argument):
        return Open(argument)

    commands = Registry([Command("resume", "", resume, usage="ID")])
    async with screen(say("still here"), commands=commands, reopen=reopen) as (chat, pilot, _):
        await write(pilot, "/resume x")
        await pilot.press("enter")
        await until(pilot, lambda: "open in another window" in notes(chat))
        await write(pilot, "hi")
        await pilot.press("enter")
        await until(pilot, lambda: "still here" in rows(chat))


async def test_without_a_session_nothing_that_is_written_is_lost_or_waits_in_vain():
    model = core.ScriptedModel(say("in a new one"))

    def resumed():
        raise ConfigError("Session x is open in another window.")

    async def new(_argument):
        return Open(None)

    app = DflashApp(
        resumed,
        reopen=lambda _session_id: core.open_session(model),
        commands=Registry([Command("new", "", new)]),
        profile_label="smoke",
        folder=Path("/project"),
        first_prompt="go on",
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "/new begins one" in notes(app.chat) and app.chat.composer.text == "go on")
        await pilot.press("enter")
        await until(pilot, lambda: notes(app.chat).count("/new begins one") == 2)
        assert app.chat.composer.text == "go on" and not app.chat.picture.queue
        app.chat.composer.clear()
        await write(pilot, "!ls")
        await pilot.press("enter")
        await until(pilot, lambda: app.chat.composer.text == "!ls")
        app.chat.composer.clear()
        await write(pilot, "/new")
        await pilot.press("enter")
        await until(pilot, lambda: app.chat.session is not None and app.screen is app.chat)
        await write(pilot, "hi")
        await pilot.press("enter")
        await until(pilot, lambda: "in a new one" in rows(app.chat))
        await app.close_session()


async def test_the_dock_shows_the_rules_a_choice_would_make_and_always_keeps_them():
    kept: list[str] = []

    def keep(texts):
        kept.extend(texts)
        return "always in this project"

    tool = core.FakeTool()
    script = (
        core.calls(core.call("bash", "c1", value="npm test -- -x")),
        core.calls(core.call("bash", "c2", value="npm test")),
        say("finished"),
    )
    rules = Rulebook([], root="/project", home="/home", keep=keep)
    async with screen(*script, tools=(tool,), mode="ask", rules=rules, first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: chat.docks.approval.asked is not None and chat.docks.approval.has_focus)
        dock = "\n".join(chat.docks.approval.render_line(y).text for y in range(chat.docks.approval.size.height))
        assert "s, a allow Bash(npm test:*)" in dock and "always in this project" in dock
        await pilot.press("a")
        await until(pilot, lambda: "finished" in rows(chat))
        assert kept == ["Bash(npm test:*)"]
        assert tool.ran == ["npm test -- -x", "npm test"]


async def test_the_dock_names_the_rule_that_asks_and_offers_no_rule_against_it():
    tool = core.FakeTool()
    rules = Rulebook([Rule.parse("ask", "Bash(git push:*)", "~/config.toml", root="/p", home="/h")])
    script = (core.calls(core.call("bash", "c1", value="git push")), say("finished"))
    async with screen(*script, tools=(tool,), rules=rules, first_prompt="go") as (chat, pilot, _):
        await until(pilot, lambda: chat.docks.approval.asked is not None and chat.docks.approval.has_focus)
        dock = "\n".join(chat.docks.approval.render_line(y).text for y in range(chat.docks.approval.size.height))
        assert "ask Bash(git push:*) (~/config.toml)" in dock
        assert "this session" not in dock
        await pilot.press("s", "a")
        assert chat.docks.approval.asked is not None and chat.composer.text == "sa"
        await pilot.press("backspace", "backspace")
        await until(pilot, lambda: chat.docks.approval.has_focus)
        await pilot.press("n")
        await until(pilot, lambda: "finished" in rows(chat))
        assert tool.ran == []
