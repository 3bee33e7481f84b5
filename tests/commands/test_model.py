"""/model: what it lists, what it says a change costs, and what it refuses."""

from __future__ import annotations

import pytest

from agent.commands.base import Said
from agent.commands.model import model_command
from agent.errors import ConfigError
from agent.survey import Choice, Need, Offer, Survey

HERE = (Need("engine", "b1", True), Need("model", "m.gguf", True))
FAR = (Need("engine", "b1", False, effort="2 to 60 min"), Need("model", "x.gguf", False, 17_400_000_000, 400_000_000))
NO_GPU = "It needs a GPU, and none was found: no driver."
SURVEY = Survey(
    (),
    (
        Offer("one", "One", "", "", 8192, "DFlash", HERE, load_s=12.3),
        Offer("two", "Two", "", "", 4096, "no drafts", HERE),
        Offer("far", "Far", "", "", 4096, "no drafts", FAR),
        Offer(
            "lame", "Lame", "", "", 4096, "no drafts", HERE, obstacle="It needs a GPU, and none was found: no driver."
        ),
    ),
    "one",
    "",
)


class Engine:
    def __init__(self, current: Choice) -> None:
        self.current = current
        self.changed: list[str] = []

    async def say(self, argument: str) -> str:
        async def survey() -> Survey:
            return SURVEY

        answer = await model_command(survey, lambda: self.current, self.changed.append).run(argument)
        assert isinstance(answer, Said)
        return answer.text


async def test_it_lists_what_there_is_with_what_each_would_cost() -> None:
    rows = (await Engine(Choice(profile="one")).say("")).splitlines()
    assert rows[0] == "▸ one   One, DFlash, context 8,192: loads in 12 s, as last measured"
    assert rows[1] == "  two   Two, no drafts, context 4,096: ready, never loaded here yet"
    assert rows[2].endswith("17.0 GB to fetch, an engine to get (2 to 60 min)")
    assert rows[3] == "  lame  Lame: It needs a GPU, and none was found."
    assert "its cache is lost" in rows[4]


async def test_a_change_begins_and_says_its_cost() -> None:
    engine = Engine(Choice(server="http://x"))
    assert (await engine.say("")).startswith("attached to http://x\n  one ")
    assert await engine.say("one") == (
        "Changing to One: loads in 12 s, as last measured. The conversation is read once more: its cache is lost."
    )
    assert engine.changed == ["one"]


@pytest.mark.parametrize(("name", "says"), [("none", "no profile 'none'; there are far, lame"), ("lame", "no driver")])
async def test_what_is_not_there_or_cannot_run_is_refused_with_the_reason(name: str, says: str) -> None:
    engine = Engine(Choice(profile="one"))
    with pytest.raises(ConfigError, match=says):
        await engine.say(name)
    assert await engine.say("one") == "one runs already."
    assert not engine.changed
