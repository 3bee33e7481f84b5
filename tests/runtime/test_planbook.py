"""The book of plans that worked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.runtime.plan import Plan
from agent.runtime.planbook import PlanBook
from agent.runtime.planner import Wish, make_plan
from tests.runtime.test_planner import DRAFT, GEMMA, WISH, card, host


def plan_of(rung: int, free: float = 23.5) -> Plan:
    return make_plan(GEMMA, DRAFT, card(free), WISH, rung)


def test_the_next_start_begins_at_the_rung_that_worked(tmp_path: Path) -> None:
    file = tmp_path / "state" / "plans.json"
    assert PlanBook(file).recall(card(23.5), "gemma", "b1", WISH) == 0
    PlanBook(file).remember(card(23.5), "gemma", "b1", WISH, plan_of(3))
    assert PlanBook(file).recall(card(23.5), "gemma", "b1", WISH) == 3
    PlanBook(file).remember(card(23.5), "gemma", "b1", WISH, plan_of(2))
    assert PlanBook(file).recall(card(23.5), "gemma", "b1", WISH) == 2
    assert [f.name for f in file.parent.iterdir()] == ["plans.json"]


def test_another_card_engine_profile_or_wish_knows_nothing_of_it(tmp_path: Path) -> None:
    book = PlanBook(tmp_path / "plans.json")
    book.remember(card(23.5), "gemma", "b1", WISH, plan_of(3))
    assert book.recall(card(23.5, name="another"), "gemma", "b1", WISH) == 0
    assert book.recall(card(23.5), "gemma", "b2", WISH) == 0
    assert book.recall(card(23.5), "other", "b1", WISH) == 0
    assert book.recall(card(23.5), "gemma", "b1", replace(WISH, ctx=65536)) == 0
    assert book.recall(host(64), "gemma", "b1", Wish(32768, 16384)) == 0


def test_with_more_memory_free_than_then_the_best_is_tried_again(tmp_path: Path) -> None:
    book = PlanBook(tmp_path / "plans.json")
    machine = card(23.5)
    book.remember(machine, "gemma", "b1", WISH, replace(plan_of(3), room=21 << 30))
    assert book.recall(machine, "gemma", "b1", WISH) == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"x": 1}', "[" * 100_000, "\x00\xff"])
def test_a_damaged_book_is_an_empty_one(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plans.json"
    file.write_text(text, encoding="latin-1")
    book = PlanBook(file)
    assert book.recall(card(23.5), "gemma", "b1", WISH) == 0
    book.remember(card(23.5), "gemma", "b1", WISH, plan_of(3))
    assert book.recall(card(23.5), "gemma", "b1", WISH) == 3


@pytest.mark.parametrize("entry", [7, {}, {"rung": "2", "room": 1}, {"rung": -1, "room": 1 << 60}, {"rung": 1}])
def test_a_damaged_entry_is_forgotten(tmp_path: Path, entry: object) -> None:
    file = tmp_path / "plans.json"
    book = PlanBook(file)
    book.remember(card(23.5), "gemma", "b1", WISH, plan_of(3))
    file.write_text(json.dumps(dict.fromkeys(json.loads(file.read_text()), entry)))
    assert book.recall(card(23.5), "gemma", "b1", WISH) == 0


def test_a_place_where_nothing_can_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    book = PlanBook(tmp_path / "file" / "plans.json")
    book.remember(card(23.5), "gemma", "b1", WISH, plan_of(3))
    assert book.recall(card(23.5), "gemma", "b1", WISH) == 0


def test_the_book_does_not_grow_for_ever(tmp_path: Path) -> None:
    book = PlanBook(tmp_path / "plans.json")
    for number in range(70):
        book.remember(card(23.5), f"profile {number}", "b1", WISH, plan_of(3))
    assert len(json.loads((tmp_path / "plans.json").read_text())) == 64
    assert book.recall(card(23.5), "profile 69", "b1", WISH) == 3
