"""Arguments as models really write them."""

from __future__ import annotations

import pytest

from agent.model.repair import repair_arguments


@pytest.mark.parametrize(
    ("raw", "mended"),
    [
        ("", "{}"),
        ("  ", "{}"),
        ("null", "{}"),
        ('{"b": 1,  "a": 2}', '{"b": 1,  "a": 2}'),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ('{"<|\\"|>file<|\\"|>": "x"}', '{"file": "x"}'),
        ("{", None),
        ("[1]", None),
        ("7", None),
        ('"word"', None),
        ("[" * 100000, None),
    ],
)
def test_small_faults_are_mended_and_others_are_named(raw: str, mended: str | None) -> None:
    assert repair_arguments(raw) == mended
