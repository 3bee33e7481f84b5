"""Forms: what keys do to their fields, what is wrong with them, and the dock that shows them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from textual import events

from agent.core.forms import Filled
from agent.forms import Form, FormField
from agent.tui.form import Filling
from tests.tui.test_screen import rows, say, screen, until

COLOURS = (("r", "Red"), ("g", "Green"), ("b", "Blue"))


@pytest.mark.parametrize(
    ("field", "written", "fault"),
    [
        (FormField("a", "A", required=True), "", "needed"),
        (FormField("a", "A"), "", ""),
        (FormField("a", "A", least=3), "ab", "at least 3 characters"),
        (FormField("a", "A", most=2), "abc", "at most 2 characters"),
        (FormField("a", "A", "integer"), "1.5", "not a whole number"),
        (FormField("a", "A", "number"), "x", "not a number"),
        (FormField("a", "A", "number", least=1, most=5), "0", "at least 1"),
        (FormField("a", "A", "number", least=1, most=5), "5.5", "at most 5"),
        (FormField("a", "A", format="email"), "ada@", "not an e-mail address"),
        (FormField("a", "A", format="email"), "ada@example.com", ""),
        (FormField("a", "A", format="uri"), "example", "not a URI"),
        (FormField("a", "A", format="date"), "31.1.2026", "not a date (2026-01-31)"),
        (FormField("a", "A", format="date-time"), "noon", "not a date and time (2026-01-31T12:00:00Z)"),
        (FormField("a", "A", format="date-time"), "2026-01-31T12:00:00Z", ""),
        (FormField("a", "A", "boolean", required=True), "", "needed"),
        (FormField("a", "A", "choice", options=COLOURS, required=True), "", "needed"),
    ],
)
def test_what_is_wrong_with_a_field_is_said(field: FormField, written: str, fault: str) -> None:
    form = Filling([field])
    form.write(written)
    assert form.faults() == ({0: fault} if fault else {})


def test_values_have_the_kinds_of_their_fields_and_empty_ones_are_left_out() -> None:
    form = Filling(
        [
            FormField("text", "", value="as it was"),
            FormField("needed", "", value="x", required=True),
            FormField("whole", "", "integer", value=7.0),
            FormField("share", "", "number", value=0.25),
            FormField("yes", "", "boolean", value=True),
            FormField("one", "", "choice", value="g", options=COLOURS),
            FormField("some", "", "choices", value=("r", "b"), options=COLOURS),
            FormField("none", "", "choices", options=COLOURS),
            FormField("empty", "", "number"),
        ]
    )
    assert not form.faults()
    values: dict[str, Any] = form.values()
    assert values == {
        "text": "as it was", "needed": "x", "whole": 7, "share": 0.25, "yes": True, "one": "g", "some": ["r", "b"]
    }  # fmt: skip
    assert isinstance(values["whole"], int)


def test_keys_turn_choices_and_take_several() -> None:
    form = Filling(
        [
            FormField("yes", "", "boolean"),
            FormField("one", "", "choice", options=COLOURS),
            FormField("some", "", "choices", options=COLOURS, least=2),
        ]
    )
    form.write("x")  # letters do nothing to what is not written
    form.toggle()
    form.move(1)
    form.turn(1)
    form.turn(-1)
    form.move(1)
    form.turn(1)
    form.toggle()
    assert form.faults() == {2: "at least 2 choices"}
    form.turn(1)
    form.toggle()
    assert form.values() == {"yes": True, "one": "b", "some": ["g", "b"]}
    form.move(1)
    assert form.at == 0


FIELDS = (
    FormField("name", "Your name", about="As on your passport.", required=True),
    FormField("age", "Age", "integer", least=0),
    FormField("colour", "Colour", "choice", options=COLOURS),
)
FORM = Form(
    "MCP server x asks", "Who are you?", (("accept", "send"), ("decline", "decline"), ("cancel", "cancel")), FIELDS
)
ASK = Form("Start this?", "It would run:\nrm -rf [x]", (("always", "yes"), ("once", "once"), ("no", "no")), default=2)


def shown(chat: Any) -> str:
    dock = chat.docks.form
    return "\n".join(dock.render_line(y).text.rstrip() for y in range(dock.scrollable_content_region.height))


async def asked(chat: Any, pilot: Any, form: Form) -> asyncio.Task[Filled]:
    answer = asyncio.create_task(chat.session.forms.ask(form))
    dock = chat.docks.form
    await until(pilot, lambda: dock.asked and dock.has_focus and time.monotonic() > dock._typing_until)
    return answer


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 16)])
async def test_a_form_is_filled_in_with_the_keyboard_alone(size: tuple[int, int]) -> None:
    async with screen(size=size) as (chat, pilot, _):
        answer = await asked(chat, pilot, FORM)
        assert "Who are you?" in shown(chat) and "Your name*" in shown(chat)
        await pilot.press("tab", *"-3", "tab", "right", "right", "enter")
        assert not answer.done() and "needed" in shown(chat)  # the first fault has the keys
        await pilot.press(*"Ada", "space", *"L", "backspace", "down", "enter", "enter")
        await until(pilot, lambda: "at least 0" in shown(chat))
        await pilot.press("backspace", "backspace", *"36", "enter", "enter")
        await until(pilot, answer.done)
        assert answer.result() == Filled("accept", {"name": "Ada ", "age": 36, "colour": "g"})
        await until(pilot, lambda: chat.composer.has_focus and not chat.docks.form.display)


@pytest.mark.parametrize(("keys", "choice"), [(("escape",), "cancel"), (("ctrl+n", "enter"), "decline")])
async def test_a_form_is_declined_or_cancelled(keys: tuple[str, ...], choice: str) -> None:
    async with screen() as (chat, pilot, _):
        answer = await asked(chat, pilot, FORM)
        await pilot.press(*keys)
        await until(pilot, answer.done)
        assert answer.result() == Filled(choice)


@pytest.mark.parametrize(
    ("keys", "choice"), [(("enter",), "no"), (("right", "enter"), "always"), (("left", "enter"), "once")]
)
async def test_a_question_without_fields_is_a_choice(keys: tuple[str, ...], choice: str) -> None:
    async with screen() as (chat, pilot, _):
        answer = await asked(chat, pilot, ASK)
        assert "rm -rf [x]" in shown(chat) and "[no]" in shown(chat)
        await pilot.press(*keys)
        await until(pilot, answer.done)
        assert answer.result().choice == choice


async def test_a_paste_goes_into_the_field_as_one_line() -> None:
    async with screen() as (chat, pilot, _):
        answer = await asked(chat, pilot, FORM)
        chat.docks.form.post_message(events.Paste("Ada\n Lovelace\n"))
        await until(pilot, lambda: "Ada Lovelace" in shown(chat))
        await pilot.press("tab", "tab", "enter")
        await until(pilot, answer.done)
        assert answer.result().content == {"name": "Ada Lovelace"}


async def test_keys_of_someone_who_is_writing_fill_in_nothing() -> None:
    async with screen(say("ok")) as (chat, pilot, _):
        await pilot.press(*"wri")
        answer = asyncio.create_task(chat.session.forms.ask(ASK))
        await until(pilot, lambda: chat.docks.form.asked is not None)
        await pilot.press(*"te1")
        await until(pilot, lambda: chat.composer.text == "write1")
        assert not answer.done()
        answer.cancel()
        await until(pilot, lambda: chat.docks.form.asked is None and chat.composer.has_focus)
        await pilot.press("enter")
        await until(pilot, lambda: "› write1" in rows(chat))


async def test_forms_are_shown_one_after_the_other() -> None:
    async with screen() as (chat, pilot, _):
        first, second = await asked(chat, pilot, ASK), asyncio.create_task(chat.session.forms.ask(FORM))
        await pilot.press("right", "enter")
        await until(pilot, lambda: first.done() and "Your name" in shown(chat))
        await pilot.press("escape")
        await until(pilot, second.done)
        assert second.result().choice == "cancel"
