from __future__ import annotations

import pytest

from agent.commands.base import Answer, Command, Registry, Said


async def run(argument: str) -> Answer:
    return Said(argument)


MODE = Command(
    "mode",
    "what needs no question",
    run,
    usage="on|off",
    complete=lambda w: [m for m in ("on", "off") if m.startswith(w)],
)
QUIT = Command("quit", "end", run, aliases=("exit", "bye"))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/mode on", (MODE, "mode", "on")),
        ("  /mode   on  ", (MODE, "mode", "on")),
        ("/exit", (QUIT, "exit", "")),
        ("/mode two\nlines", (MODE, "mode", "two\nlines")),
        ("/nothing", (None, "nothing", "")),
        ("/nothing but\na message", None),
        ("/usr/bin is a folder", None),
        ("/ mode", None),
        ("/", None),
        ("mode on", None),
        ("", None),
    ],
)
def test_a_message_is_a_command_or_it_is_not(line: str, found: object) -> None:
    assert Registry([MODE, QUIT]).read(line) == found


@pytest.mark.parametrize(
    ("written", "offered"),
    [
        ("/", ["/mode", "/quit"]),
        ("/qu", ["/quit"]),
        ("/ex", ["/quit"]),
        ("/od", ["/mode"]),
        ("/mode o", ["/mode on", "/mode off"]),
        ("/mode of", ["/mode off"]),
        ("/quit x", []),
        ("/zz", []),
    ],
)
def test_what_is_written_may_mean(written: str, offered: list[str]) -> None:
    assert [line for line, _ in Registry([MODE, QUIT]).completions(written)] == offered


def test_the_first_of_a_name_wins_and_one_that_goes_takes_its_aliases_with_it() -> None:
    other = Command("quit", "another", run, aliases=("stop",))
    registry = Registry([QUIT])
    registry.add(other)
    assert registry.find("quit") is QUIT
    assert registry.find("stop") is None
    registry.remove("quit")
    registry.remove("quit")
    assert registry.find("exit") is None
    assert list(registry) == []
