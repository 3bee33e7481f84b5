"""Front matter as it is found in the wild: it loads, and what is odd is told with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.prompt.frontmatter import read_page

GOOD = {"name": "a", "description": "d"}


@pytest.mark.parametrize(
    ("data", "fields", "lines"),
    [
        (b"---\nname: a\ndescription: d\n---\nbody", GOOD, []),
        (b"\n\n---\nname: a\ndescription: d\n---\nbody", GOOD, []),
        (b"\xef\xbb\xbf---\r\nname: a\r\ndescription: d\r\n---\r\nbody\r\n", GOOD, []),
        ("---\nname: a\ndescription: d\n---\nbody".encode("utf-16"), GOOD, []),
        (b"---\nname: a\ndescription: d\n...\nbody", GOOD, []),
        (b"---\nname: yes\ndescription: 1.10\n---\nbody", {"name": "yes", "description": "1.10"}, []),
        (
            b"---\nname: a\ndescription: >-\n  one: two\n  three\n---\nbody",
            GOOD | {"description": "one: two three"},
            [],
        ),
        (b"---\nname: a\ndescription: Use when: x\n---\nbody", GOOD | {"description": "Use when: x"}, [3]),
        (b"---\nname: a\ndescription: a: b\n  c: d\n---\nbody", GOOD | {"description": "a: b c: d"}, [3]),
        (b"---\nname: a\ndescription: it's: x\n---\nbody", GOOD | {"description": "it's: x"}, [3]),
        (b"---\nname: a\ndescription: 'open\n---\nbody", GOOD | {"description": "open"}, [3]),
        (b"---\nname: a\n\tdescription: d\n---\nbody", GOOD, [3]),
        (b"---\nname: a\ndescription: caf\xe9\n---\nbody", GOOD | {"description": "caf\ufffd"}, [3]),
        (b"---\nname: a\ndescription: d\x07\n---\nbody", GOOD, [3]),
        (b"---\nname: a\ndescription: d\n# Title\nbody", GOOD, [1]),
        (b"---\nargument-hint: [file] [x]\n---\nbody", {"argument-hint": "[file] [x]"}, [2]),
        (b"---\ntags: [a, b]\nmetadata:\n  by: x\n---\nbody", {"tags": ["a", "b"], "metadata": {"by": "x"}}, []),
        (b"---\n- a\n- b\n---\nbody", {}, [2]),
        (b"---\n" + b"[" * 100_000 + b"\n---\nbody", {}, [2]),
        (b"---\n---\nbody", {}, []),
        (b"body", {}, []),
        (b"", {}, []),
    ],
)
def test_front_matter_is_read_leniently(data: bytes, fields: dict[str, object], lines: list[int]) -> None:
    page = read_page(data)
    assert dict(page.fields) == fields
    assert [fault.line for fault in page.faults] == lines
    assert page.body.endswith("body") or not data


def test_the_body_keeps_its_line_numbers() -> None:
    page = read_page(b"---\nname: a\n---\n\n\nfirst\nsecond\n")
    assert (page.body, page.body_line) == ("first\nsecond", 6)
    assert page.line_of("name") == 2


@given(st.binary(max_size=300))
def test_nothing_makes_it_fail(data: bytes) -> None:
    read_page(b"---\n" + data)
    read_page(data)


@given(st.text(max_size=80))
def test_any_words_survive_as_a_description(words: str) -> None:
    line = " ".join(words.split())
    page = read_page(f"---\nname: a\ndescription: Say {line}\n---\nbody".encode("utf-8", "replace"))
    assert page.text("name") == "a" and page.text("description").startswith("Say")
