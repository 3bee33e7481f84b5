"""The composer's history over several runs."""

import json

from agent.store import prompts
from agent.store.prompts import PromptHistory


def test_what_was_sent_comes_back_in_order_with_every_character(tmp_path):
    file = tmp_path / "state" / "history.jsonl"
    sent = ["one", 'two\nlines, "quoted"', "naïve ☃ \x1b[31m", "lone \ud800"]
    for text in sent:
        PromptHistory(file).add(text)
    assert PromptHistory(file).load() == sent
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_prompt_sent_twice_in_a_row_is_kept_once(tmp_path):
    history = PromptHistory(tmp_path / "h")
    for text in ("a", "a", "b", "a"):
        history.add(text)
    assert history.load() == ["a", "b", "a"]


def test_lines_that_are_no_prompts_are_passed_over(tmp_path):
    file = tmp_path / "h"
    file.write_bytes(b'"good"\n{"no": 1}\nhalf a li\n\xff\xfe\n\n"also good"\n"cut off')
    assert PromptHistory(file).load() == ["good", "also good"]


def test_a_line_after_one_that_was_cut_off_is_lost_alone(tmp_path):
    file = tmp_path / "h"
    file.write_bytes(b'"first"\n"cut')
    PromptHistory(file).add("glued to it")
    PromptHistory(file).add("safe")
    assert PromptHistory(file).load() == ["first", "safe"]


def test_a_place_that_cannot_be_written_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("")
    history = PromptHistory(tmp_path / "file" / "h")
    history.add("x")
    assert history.load() == []


def test_a_huge_paste_is_not_remembered(tmp_path):
    history = PromptHistory(tmp_path / "h")
    history.add("x" * (prompts.LONGEST + 1))
    assert history.load() == []


def test_a_file_past_its_limit_is_cut_to_the_newest(tmp_path):
    file = tmp_path / "h"
    text = "y" * 8000
    file.write_text("".join(json.dumps(f"{n} {text}") + "\n" for n in range(prompts.KEPT + 50)))
    assert file.stat().st_size > prompts.FILE_LIMIT
    loaded = PromptHistory(file).load()
    assert len(loaded) == prompts.KEPT and loaded[-1].startswith(f"{prompts.KEPT + 49} ")
    assert PromptHistory(file).load() == loaded
    assert len(file.read_text().splitlines()) == prompts.KEPT
