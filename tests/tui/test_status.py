"""The status line says the truth and fits."""

import pytest

from agent.events import (
    AssistantAdded,
    CallDelta,
    Compacted,
    Compacting,
    Endpoint,
    PrefillProgress,
    ServerChanged,
    ServerState,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.messages import AssistantMessage, Timings, Usage, UserMessage
from agent.progress import Phase
from agent.tui.gauge import Gauge
from agent.tui.status import shows_mode, status_line

TIMINGS = Timings(980, 20, 50.0, 300, 2112.0, 142.0, 328, 256)


def gauge(*events, speculative=True, timings=TIMINGS) -> Gauge:
    g = Gauge(branch="main*")
    endpoint = Endpoint(
        "http://127.0.0.1", "k", "m", 32768, speculative, rung="dflash" if speculative else "plain", wanted="dflash"
    )
    reply = AssistantMessage("m2", "hi", usage=Usage(12000, 11000, 400), timings=timings)
    start = (ServerChanged(ServerState("ready", endpoint=endpoint)), TurnStarted(1, UserMessage("m1", "x")))
    for event in events or (*start, StepStarted(1, 1, "m2"), AssistantAdded(1, reply), TurnEnded(1, "done")):
        g.apply(event, 10.0)
    return g


def test_at_rest_it_shows_the_servers_own_figures():
    line = status_line(gauge(), "gemma-4-31B", 11.0, 120).plain
    assert line == (
        " gemma-4-31B ▸DFlash  142 tok/s  acc 78% (6.8/step)  cache 98%  ctx 12.4k/32k ▄  ask  main*"
    ).replace("▄", line[line.index("/32k ") + 5])


def test_nothing_drafted_is_not_applicable_and_no_speculation_is_off():
    assert "acc n/a" in status_line(gauge(timings=Timings(1, 2, 3.0, 4, 5.0, 6.0)), "m", 11.0, 120).plain
    assert "acc OFF" in status_line(gauge(speculative=False), "m", 11.0, 120).plain


def test_prefill_is_a_bar_and_waiting_counts():
    g = gauge(StepStarted(1, 1, "m2"))
    assert "waiting 3 s" in status_line(g, "m", 13.0, 80).plain
    g.apply(PrefillProgress("m2", 18400, 200, 6200, 2000.0), 13.0)
    assert "reading 6.2k of 18.4k tokens ██▊      3,000 tok/s  4 s left" in status_line(g, "m", 13.0, 80).plain
    assert "2 s left" in status_line(g, "m", 15.0, 80).plain  # between two of the server's reports


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (60, "reading 6.2k of 18.4k tokens ██▊      4 s left"),
        (40, "reading 6.2k/18.4k ██▊      4 s left"),
        (30, "6.2k/18.4k ██▊      4 s left"),
        (24, "6.2k/18.4k  4 s left"),
    ],
)
def test_what_is_left_of_the_prefill_is_the_last_to_go(width: int, shown: str) -> None:
    g = gauge(StepStarted(1, 1, "m2"), PrefillProgress("m2", 18400, 200, 6200, 2000.0))
    assert shown in status_line(g, "gemma-4-31B", 10.0, width).plain


def test_loading_shows_phase_and_time():
    g = gauge(ServerChanged(ServerState("starting", Phase("load", "loading the model"))))
    assert "loading the model 7 s" in status_line(g, "m", 17.0, 80).plain
    assert g.busy


@pytest.mark.parametrize("width", [1, 8, 20, 40, 79, 200])
def test_it_never_exceeds_its_width(width):
    assert status_line(gauge(), "gemma-4-31B", 11.0, width).cell_len <= width


def test_a_reply_that_stops_coming_is_waited_for_in_seconds():
    g = gauge(StepStarted(1, 1, "m2"), TextDelta("m2", "some words"), TextDelta("m2", "and more"))
    assert "~" in status_line(g, "m", 11.0, 80).plain and "waiting" not in status_line(g, "m", 11.0, 80).plain
    assert "waiting 2 s" in status_line(g, "m", 12.0, 80).plain and "waiting 9 s" in status_line(g, "m", 19.0, 80).plain
    g.apply(TextDelta("m2", "again"), 20.0)
    assert "waiting" not in status_line(g, "m", 21.0, 80).plain
    g.apply(CallDelta("m2", 0, "bash", "{"), 21.0)
    assert "waiting 3 s" in status_line(g, "m", 24.0, 80).plain


@pytest.mark.parametrize("width", [14, 20, 40, 60, 80, 200])
@pytest.mark.parametrize("mode", ["accept-edits", "plan", "auto"])
def test_what_is_allowed_without_a_question_is_the_last_to_go(width, mode):
    busy = gauge(StepStarted(1, 1, "m2"), PrefillProgress("m2", 18400, 200, 6200, 2000.0))
    writing = gauge(StepStarted(1, 1, "m2"), TextDelta("m2", "some"), TextDelta("m2", "words"))
    for g in (gauge(), busy, writing):
        g.mode = mode
        line = status_line(g, "gemma-4-31B-it-Q4_K_S", 11.0, width)
        assert mode in line.plain.split() and line.cell_len <= width
        assert shows_mode(g, "gemma-4-31B-it-Q4_K_S", 11.0, width)
    assert not shows_mode(gauge(), "gemma-4-31B-it-Q4_K_S", 11.0, 40)


def test_what_goes_on_now_stays_beside_the_mode():
    g = gauge(StepStarted(1, 1, "m2"))
    g.mode = "accept-edits"
    assert status_line(g, "gemma-4-31B", 13.0, 30).plain == " waiting 3 s  accept-edits"


def test_a_compaction_is_never_silent_and_ends_where_it_began():
    for inside in (False, True):
        g = gauge(*((TurnStarted(1, UserMessage("m1", "x")),) if inside else ()), TurnEnded(0, "done"))
        if inside:
            g.apply(TurnStarted(2, UserMessage("m2", "y")), 10.0)
        g.apply(Compacting(), 11.0)
        assert "compacting 4 s" in status_line(g, "m", 15.0, 80).plain and g.busy
        g.apply(PrefillProgress("s", 900, 800, 850, 10.0), 15.0)
        assert "reading" in status_line(g, "m", 15.0, 80).plain
        g.apply(Compacting(120), 16.0)
        assert "120 words" in status_line(g, "m", 17.0, 80).plain
        g.apply(Compacted("s", 4, after=900), 18.0)
        g.apply(Compacting(None), 18.0)
        assert g.context == 900 and g.activity == ("waiting" if inside else "idle")
