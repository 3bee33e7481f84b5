"""/speed and /context at any width: nothing wraps, nothing is guessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent.commands.base import Line, Said
from agent.commands.context import context, context_command
from agent.commands.speed import one_turn, report, speed_command
from agent.commands.table import SHADES, Column, bar, cells, hanging, legend, table
from agent.core.spending import Spending
from agent.core.stats import turns
from agent.errors import AgentError
from agent.events import AssistantAdded, CallPlanned, DurableEvent, ResultAdded, TurnEnded, TurnStarted
from agent.messages import AssistantMessage, Share, Timings, ToolCall, Usage, UserMessage
from tests.fakes.core import ScriptedModel, call, calls, open_session, rough, text

WIDTHS = [20, 30, 40, 60, 80, 100, 120, 200]


def session_events(count: int, title: str = "add a flag to report.py", waited: float = 3.0) -> list[DurableEvent]:
    found: list[DurableEvent] = []
    for n in range(1, count + 1):
        split = (Share("thinking", 100, 90, 20), Share("code", 900, 800, 700), Share("calls", 204, 300, 100))
        timings = Timings(12_000, 400, 420.0, 1204, 8480.0, 142.0, 1190, 820, split)
        reply = AssistantMessage(
            f"r{n}", "x", calls=(ToolCall(f"c{n}", "bash", "{}"),), usage=Usage(12_400, 12_000, 1204), timings=timings
        )
        found += [
            TurnStarted(n, UserMessage(f"u{n}", title)),
            AssistantAdded(n, reply, 9.1),
            CallPlanned(f"c{n}", "bash", "execute", "bash"),
            ResultAdded(f"c{n}", "bash", "ok", False, 4.2),
            TurnEnded(n, "done" if n % 5 else "interrupted", seconds=20.0, waited=waited),
        ]
    return found


def plain(lines: Sequence[Line]) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in lines]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("title", ["short", "修复这个程序里的所有错误 and tell me what you did about each of them"])
def test_the_table_of_turns_fits_any_width(width: int, title: str) -> None:
    events = session_events(7, title)
    rows = plain(report(turns(events), events, 20, width))
    assert all(cells(row) <= width for row in rows[:10]), [r for r in rows if cells(r) > width]
    assert "turn" in rows[0] and "tok/s" in rows[0] and "142" in rows[1]
    assert "5!" in rows[5], "a turn that did not end well is marked"
    if width >= 40:
        assert all(word in rows[0] for word in ("cached", "acc", "seconds"))
    if width >= 120:
        assert all(word in rows[0] for word in ("prompt", "prefill", "decode", "tools", "you", "other", "message"))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_time_and_the_kinds_follow(width: int) -> None:
    events = session_events(3)
    rows = plain(report(turns(events), events, 20, width))
    text = "\n".join(rows)
    assert "Where the time went" in text and "waiting for you 15%" in text and "decode 42%" in text
    assert "tool arguments" in text and "88%" in text
    assert "Tool calls  3" in text
    assert all(cells(row) <= width for row in rows)


def test_only_the_newest_turns_are_shown_unless_all_are_asked_for() -> None:
    events = session_events(50)
    rows = plain(report(turns(events), events, 20, 80))
    assert "30 earlier turns" in rows[1] and rows[2].split()[0] == "31"
    assert "50 turns" in "\n".join(plain(report(turns(events), events, 50, 100)))


def test_one_turn_shows_its_requests() -> None:
    rows = plain(one_turn(turns(session_events(1))[0], 100))
    assert rows[0].split()[0] == "step" and rows[1].split()[0] == "1" and rows[3].split()[0] == "all"


async def test_what_was_not_measured_is_blank() -> None:
    events: list[DurableEvent] = [
        TurnStarted(1, UserMessage("u", "hi")),
        AssistantAdded(1, AssistantMessage("r", "x"), 1.0),
        TurnEnded(1, "done", seconds=1.0),
    ]
    rows = plain(report(turns(events), events, 20, 100))
    assert rows[1].split() == ["1", "hi", "1", "1.0"] and len(rows) == 2


async def test_the_command_says_when_there_is_nothing_and_what_can_be_asked() -> None:
    session = open_session(ScriptedModel(calls(call("bash", "a", value="ls")), text("done")))
    command = speed_command(lambda: session)
    assert await command.run("") == Said("No turn has ended yet.")
    session.submit("go")
    await session.idle()
    answer: Any = await command.run("")
    assert answer.draw is not None and "turn" in answer.text
    for wrong in ("7", "fast"):
        with pytest.raises(AgentError):
            await command.run(wrong)
    await session.close()


SPENT = Spending(
    32_768,
    12_400,
    True,
    (("system prompt", 371), ("tools", 381), ("your messages", 948), ("tool results", 10_700)),
    4096,
)


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_the_context_fits_any_width_and_adds_up(width: int) -> None:
    rows = plain(context(SPENT, "", width))
    assert rows[0] == "Context 12,400 of 32,768 tokens (38%)"
    assert all(cells(row) <= max(width, cells(rows[0])) for row in rows)
    assert len(rows[1]) == min(width, 72)
    assert [row.split()[-2] for row in rows[3:]] == ["371", "381", "948", "10,700", "4,096", "16,272"]
    assert SPENT.free == 16_272 and sum(n for _, n in SPENT.parts) + SPENT.reply + SPENT.free == 32_768


def test_a_full_context_says_what_comes_next_and_an_unknown_one_what_is_unknown() -> None:
    full = Spending(4096, 4000, False, (("system prompt", 4000),), 1024)
    rows = plain(context(full, "", 80))
    assert "about 4,000" in rows[0] and "compacts" in rows[-1]
    assert "not known" in plain(context(Spending(None, 10, False, (("tools", 10),), 0), "", 80))[0]


async def test_the_parts_are_the_servers_where_it_counts() -> None:
    async def counts(request: Any) -> int:
        return 100 + (200 if request.tools else 0) + 50 * len(request.messages)

    session = open_session(
        ScriptedModel(calls(call("bash", "a", value="ls")), text("done")), counter=rough(4096, counts), can_ask=False
    )
    session.submit("go")
    await session.idle()
    spent = await session.spending()
    assert spent.exact and spent.used == 500 and spent.n_ctx == 4096
    assert spent.parts[:2] == (("system prompt", 100), ("tools", 200))
    assert sum(n for _, n in spent.parts) == pytest.approx(500, abs=3)
    answer: Any = await context_command(lambda: session).run("")
    assert "500 of 4,096" in answer.text
    await session.close()


def test_a_bar_shares_its_cells_out_and_hides_nobody() -> None:
    pieces = bar([1000, 1, 0, 500], 30)
    assert sum(len(t) for t, _ in pieces) == 30 and len(pieces) == 3
    assert bar([], 10) == () and bar([0.0], 10) == ()
    assert all(cells("".join(t for t, _ in line)) <= 24 for line in legend([("decode", "61%")] * 6, 24))
    assert len(set(SHADES)) == len(SHADES)


def test_columns_go_by_rank_and_empty_ones_are_left_out() -> None:
    columns = (Column("a", 0), Column("text", 3, text=True), Column("b", 1), Column("c", 2))
    rows = [["1", "some words here", "22", ""], ["2", "more", "3", ""]]
    assert plain(table(columns, rows, 60))[0].split() == ["a", "text", "b"]
    assert plain(table(columns, rows, 6))[0].split() == ["a", "b"]
    assert plain(table(columns, rows, 2))[0].split() == ["a"]


@pytest.mark.parametrize("width", [20, 40, 100])
def test_what_does_not_fit_beside_a_name_goes_on_below_its_words(width: int) -> None:
    text = "folder   /a/long/path/that/goes/on/and/on\nmode     ask before every change that is made\n\nNo rows here."
    lines = ["".join(piece for piece, _ in line) for line in hanging(text, width)]
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    inside = lines[: lines.index("")]
    assert all(line.startswith(("folder   ", "mode     ", " " * 9)) for line in inside)
