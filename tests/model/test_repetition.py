"""When a reply counts as one that repeats itself without end."""

import random

import pytest

from agent.model.repetition import RUN, WINDOW, RepetitionGuard


def fed(text: str, piece: int = 7) -> str:
    guard = RepetitionGuard()
    for start in range(0, len(text), piece):
        if found := guard.feed(text[start : start + piece]):
            return found
    return ""


@pytest.mark.parametrize("text", ["/" * 1500, "words first " + "!" * 1500])
def test_a_row_of_one_character_is_noticed_soon(text: str) -> None:
    assert fed(text) in ("/", "!")


@pytest.mark.parametrize("piece", ["ab", "the sea is deep and ", "x = 1\n" * 60, "é☃"])
def test_a_repeated_piece_is_noticed(piece: str) -> None:
    assert fed("Some words. " + piece * (2 * WINDOW // len(piece)))


def test_endless_blanks_are_noticed() -> None:
    assert fed("a" + " \n" * WINDOW)


@pytest.mark.parametrize(
    "text",
    [
        "W" * 10_000,
        "http://127.0.0.1/" + "u" * 10_000,
        "-" * (RUN - 1) + "\n" + "=" * (RUN - 1),
        "| --- | --- |\n" * 100,
        "[" + "0, " * 1000 + "]",
        "the sea is deep and " * 100,
        "\n".join(f"value_{n} = compute({n})" for n in range(500)),
        "\n".join(f"    case {n % 10}: return {n};" for n in range(500)),
    ],
)
def test_what_people_ask_for_is_not(text: str) -> None:
    assert fed(text) == ""


def test_what_comes_in_one_piece_is_not() -> None:
    assert fed("a" * 2_000_000, piece=2_000_000) == ""


def test_prose_is_not() -> None:
    dice = random.Random(7)
    words = ["the", "a", "sea", "ship", "deep", "wide", "of", "and", "in", "to", "blue", "old", "sails"]
    assert fed(" ".join(dice.choice(words) for _ in range(20_000))) == ""
