"""Figures of turns: every number true, unknown ones unknown, and the parts of the time add up to it."""

from __future__ import annotations

import pytest

from agent.core.stats import steps, total, turns
from agent.events import AssistantAdded, Compacted, DurableEvent, ResultAdded, TurnEnded, TurnStarted
from agent.messages import AssistantMessage, Share, Timings, Usage, UserMessage

USAGE = Usage(100, 90, 40)
SPLIT = (Share("prose", 10, 4, 1), Share("code", 30, 16, 14))
TIMINGS = Timings(90, 10, 500.0, 40, 1000.0, 40.0, 20, 15, SPLIT)


def reply(number: int, timings: Timings = TIMINGS, usage: Usage = USAGE) -> AssistantAdded:
    return AssistantAdded(1, AssistantMessage(f"m{number}", "x", usage=usage, timings=timings), 1.6)


def turn(*inside: DurableEvent, seconds: float = 9.0, waited: float = 2.0) -> list[DurableEvent]:
    started = TurnStarted(1, UserMessage("m0", "do it\nplease"))
    return [started, *inside, TurnEnded(1, "done", seconds=seconds, waited=waited)]


def test_the_parts_of_a_turn_add_up_to_its_wall_time() -> None:
    events = turn(reply(1), ResultAdded("c", "bash", "ok", False, 1.5), reply(2))
    (found,) = turns(events)
    f = found.total
    assert (found.title, found.outcome, len(found.steps)) == ("do it", "done", 2)
    assert (f.prefill, f.decode, f.tools, f.waited) == (1.0, 2.0, 1.5, 2.0)
    assert f.other == pytest.approx(2.5)
    assert sum((f.prefill or 0, f.decode or 0, f.tools or 0, f.waited, f.other or 0)) == pytest.approx(f.wall)
    assert f.wall_rate == pytest.approx(80 / 7.0), "waiting for the user is not the machine's time"


def test_drafts_are_shared_out_by_kind_and_over_steps() -> None:
    f = total(turn(reply(1), reply(2)))
    assert f.split == (Share("prose", 20, 8, 2), Share("code", 60, 32, 28))
    assert (f.drafted, f.accepted, f.acceptance) == (40, 30, 0.75)
    assert f.tokens_per_step == pytest.approx(80 / 50) and f.cache_share == 0.9


def test_what_nobody_reported_is_null_and_never_zero() -> None:
    data = total(turn(reply(1, Timings(), Usage()))).as_json()
    assert data["requests"] == 1
    assert all(data[k] is None for k in data if k not in ("requests", "seconds"))
    assert data["seconds"] == {"wall": 9.0, "prefill": None, "decode": None, "tools": None}


def test_a_server_that_reports_no_drafts_has_no_acceptance() -> None:
    f = total(turn(reply(1, Timings(0, 10, 5.0, 4, 40.0, 100.0))))
    assert f.acceptance is None and f.tokens_per_step is None and f.as_json()["draft_tokens"] is None


def test_the_request_for_a_summary_is_counted_where_it_happened() -> None:
    compacted = Compacted("s", 4, (), 900, 200, Usage(900, 880, 60), Timings(prompt_ms=100.0, predicted_ms=900.0), 1.1)
    inside = turns(turn(reply(1), compacted, reply(2)))
    assert len(inside) == 1 and inside[0].total.requests == 3 and inside[0].total.prompt == 1100
    between = turns([*turn(reply(1)), compacted, *turn(reply(2))])
    assert [(t.number, t.title) for t in between] == [(1, "do it"), (0, "compaction"), (1, "do it")]
    assert len(steps([*turn(reply(1)), compacted])) == 2


def test_shortening_without_a_request_is_no_request() -> None:
    assert len(turns([*turn(reply(1)), Compacted("", 0, ())])) == 1


def test_a_turn_that_runs_is_left_out() -> None:
    assert turns(turn(reply(1))[:-1]) == []
