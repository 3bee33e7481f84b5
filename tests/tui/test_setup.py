"""The setup screen as strips, and how it follows a start."""

from __future__ import annotations

import pytest

from agent.events import Endpoint, ServerState
from agent.progress import Lines, Phase, size, size_of, span
from agent.survey import Need, Offer, Survey
from agent.tui.cells.setup import KEYS, Mode, SetupView, keys_strip, setup_strips
from agent.tui.steps import Steps

MODEL, DRAFT = "gemma-4-31B-it-Q4_K_S.gguf", "gemma4-31b-it-dflash-Q5_K_M.gguf"
ENGINE = Need("engine", "BeeLlama: a release archive that fits, else built", False, effort="2 to 60 min")
NEEDS = (ENGINE, Need("model", MODEL, False, 17_400_000_000, 3_210_000_000), Need("draft", DRAFT, False, 1_090_000_000))
BIG = Offer("gemma4-31b-dflash", "Gemma 4 31B", "", "Q4_K_S", 32_768, "DFlash", NEEDS)
SMALL = Offer("smoke", "SmolLM2-135M", "", "Q4_1", 8192, "n-gram drafts", (Need("engine", "b1 (cpu)", True),))
LAME = Offer("other", "Other", "", "", 8192, "no drafts", (), "It needs \x1b[31ma GPU.")
FOUND = (("GPU", "NVIDIA GeForce RTX 4090, 23.2 of 24.0 GiB free"), ("Engine", "none yet"))
SURVEY = Survey(
    FOUND, (BIG, SMALL, LAME), BIG.profile, "Proposed because a GPU with 24 GiB was found.", 400_000_000_000
)
DONE = ServerState("ready", endpoint=Endpoint("http://x", "k", "m"))


def view(mode: Mode = "choosing", chosen: int = 0, survey: Survey | None = SURVEY) -> SetupView:
    offer = survey.offers[chosen] if survey and chosen < len(survey.offers) else None
    return SetupView(mode, survey, chosen, Steps(offer))


def text(view: SetupView, width: int = 80, now: float = 0.0) -> str:
    return "\n".join(strip.text.rstrip() for strip in setup_strips(view, width, now)[0])


def starting(*args: object, **more: object) -> ServerState:
    return ServerState("starting", Phase(*args, **more))  # type: ignore[arg-type]


def test_it_says_what_was_found_what_is_proposed_and_what_that_takes() -> None:
    shown = text(view())
    for words in (
        "GPU          NVIDIA GeForce RTX 4090",
        "❯ gemma4-31b-dflash  Gemma 4 31B",
        "15.3 GB, engine 2 to 60 min",
        "smoke",
        "ready",
        "not on this machine",
        "a server",
        "Gemma 4 31B · Q4_K_S · DFlash · context 32,768 tokens",
        "Proposed because a GPU with 24 GiB was found.",
        "15.3 GB to fetch: 20 min at 100 Mbit/s, 2 min at 1 Gbit/s.",
        "○ Engine     BeeLlama",
        "3.2 of 17.4 GB here",
        "○ Start      load it, check its answers, measure its speed",
    ):
        assert words in shown, f"{words!r} is not in\n{shown}"


def test_what_cannot_run_says_why_and_cannot_steer_the_terminal() -> None:
    shown = text(view(chosen=2))
    assert "It needs a GPU." in shown and "\x1b" not in shown and "○ Start" not in shown


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched() -> None:
    small = Survey(FOUND, (BIG,), "", "", 9_000_000_000)
    assert "Only 9.00 GB are free on this disk" in text(view(survey=small))


def test_the_row_of_the_choice_stays_in_sight() -> None:
    for chosen in range(4):
        v = view(chosen=chosen)
        strips, focus = setup_strips(v, 80, 0.0)
        assert strips[focus].text.lstrip().startswith("❯")


@pytest.mark.parametrize("width", [1, 12, 20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("mode", ["looking", "choosing", "working", "failed"])
def test_nothing_is_wider_than_the_window(width: int, mode: Mode) -> None:
    v = view(mode)
    v.failure, v.words = "The hub refuses it. " * 9, ("last words " * 30,)
    v.steps.apply(starting("models", f"fetching {MODEL}", MODEL, 7_210_000_000, 17_400_000_000, rate=45e6), 0.0)
    assert all(s.cell_length <= width for s in setup_strips(v, width, 100.0)[0])
    assert keys_strip(mode, width).cell_length <= max(width, 2)


def test_a_download_shows_bytes_speed_and_time_and_the_time_outlives_the_speed_where_it_is_narrow() -> None:
    v = view("working")
    v.steps.apply(starting("models", f"fetching {MODEL}", MODEL, 7_210_000_000, 17_400_000_000, rate=45e6), 0.0)
    assert "7.2 of 17.4 GB · 45 MB/s · 4 min left" in text(v)
    narrow = text(v, 40)
    assert "7.2 of 17.4 GB · 4 min left" in narrow and "MB/s" not in narrow


def test_steps_follow_a_start_and_take_their_times() -> None:
    steps = Steps(BIG)
    steps.apply(starting("look", "looking at this machine"), 0.0)
    assert [s.state for s in steps.rows] == ["waiting"] * 4
    steps.apply(starting("engine", "building the engine: compiling", done=40, total=100, unit="percent"), 1.0)
    steps.apply(starting("models", f"fetching {MODEL}", MODEL, 1, 2), 61.0)
    assert [s.state for s in steps.rows] == ["done", "running", "waiting", "waiting"] and steps.rows[0].seconds == 60.0
    steps.apply(starting("models", f"fetching {DRAFT}", DRAFT, 1, 2), 71.0)
    steps.apply(starting("load", f"loading {MODEL}", MODEL), 72.0)
    steps.apply(starting("check", "checking its answers"), 80.0)
    assert [s.state for s in steps.rows] == ["done", "done", "done", "running"] and steps.rows[3].begun == 72.0
    steps.apply(DONE, 82.0)
    assert [s.state for s in steps.rows] == ["done"] * 4 and steps.rows[3].seconds == 10.0


def test_what_failed_or_was_stopped_waits_again_and_what_is_done_stays_done() -> None:
    steps = Steps(BIG)
    steps.apply(starting("models", f"fetching {MODEL}", MODEL), 0.0)
    steps.apply(ServerState("failed", why="no"), 1.0)
    assert [s.state for s in steps.rows] == ["done", "failed", "waiting", "waiting"]
    steps.stopped()
    assert [s.state for s in steps.rows] == ["done", "waiting", "waiting", "waiting"]


def test_each_mode_says_its_keys() -> None:
    for mode, keys in KEYS.items():
        shown = keys_strip(mode, 100).text
        assert all(f"{key} {words}" in shown for key, words in keys)


def test_figures_are_as_long_as_they_are_worth() -> None:
    assert (size(98_362_432), size(1_090_000_000), size(17_400_000_000), size(900)) == (
        *("98 MB", "1.09 GB", "17.4 GB", "1 kB"),
    )
    assert (
        size_of(3_210_000_000, 17_400_000_000) == "3.2 of 17.4 GB" and size_of(45_000_000, 98_000_000) == "45 of 98 MB"
    )
    assert (span(40), span(89.6), span(360), span(7500)) == ("40 s", "2 min", "6 min", "2 h 5 min")


def test_where_lines_can_only_be_added_a_tenth_is_said_once() -> None:
    lines = Lines()
    said = [lines.line(Phase("models", "fetching m", "m", done, 1000)) for done in range(0, 1001, 25)]
    assert len([s for s in said if s]) == 11 and lines.line(Phase("load", "loading m")) == "loading m"
    assert lines.line(Phase("load", "loading m")) is None
