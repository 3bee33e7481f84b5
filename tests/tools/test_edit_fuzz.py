"""Edits of any text in any encoding: bytes outside the replaced place never change."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.errors import ToolFailure
from agent.tools.edit import EditParams, replaced
from agent.workspace.encoding import decode
from agent.workspace.files import Content, stamp_of

ENCODINGS = [
    ("utf-8", b""),
    ("utf-8", codecs.BOM_UTF8),
    ("utf-16-le", codecs.BOM_UTF16_LE),
    ("utf-16-be", codecs.BOM_UTF16_BE),
    ("utf-32-le", codecs.BOM_UTF32_LE),
    ("cp1252", b""),
    ("shift_jis", b""),
    ("gb18030", b""),
]
LETTERS = "ab c\t\u00a0\u201c\u201d\"'\u2019\u2014-é\u0301ü日本€\\$1.*"
words = st.text(alphabet=LETTERS, max_size=12)
line_ends = st.sampled_from(["\n", "\r\n", "\r"])


def content(data: bytes) -> Content:
    return Content(data, stamp_of(data))


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, str]:
    """Bytes, and a piece of the text that was written."""
    encoding, bom = draw(st.sampled_from(ENCODINGS))
    lines = draw(st.lists(st.tuples(words, line_ends), min_size=1, max_size=8))
    text = "".join(line + end for line, end in lines) + draw(words)
    data = bom + text.encode(encoding, "ignore")
    found = decode(data)
    assume(found is not None and found.text)
    assert found is not None
    start = draw(st.integers(0, len(found.text) - 1))
    end = draw(st.integers(start + 1, min(len(found.text), start + 30)))
    return data, found.text[start:end]


@given(files(), st.text(alphabet="xyz\n \\1$&{}", max_size=10))
@settings(max_examples=400, deadline=None)
def test_an_exact_edit_changes_only_its_place(file: tuple[bytes, str], put: str) -> None:
    data, find = file
    text = decode(data)
    assert text is not None
    try:
        new, _ = replaced(content(data), EditParams(file="f", find=find, replace=put), "f")
    except ToolFailure:
        return
    at = text.text.index(find)
    head = text.bom + text.encode(text.text[:at])
    tail = text.encode(text.text[at + len(find) :])
    assert new.startswith(head) and new.endswith(tail)
    middle = new[len(head) : len(new) - len(tail)]
    assert middle in (text.encode(put), text.encode(put.replace("\n", "\r\n")))


SLIPS = [
    lambda s: s.replace("\u201c", '"').replace("\u201d", '"').replace("\u2019", "'").replace("\u2014", "-"),
    lambda s: s.replace("\u00a0", " "),
    lambda s: "\n".join(x.rstrip(" \t") for x in s.replace("\r\n", "\n").split("\n")),
    lambda s: "\n".join(x.strip(" \t") for x in s.replace("\r\n", "\n").split("\n")),
    lambda s: "\n".join("    " + x for x in s.split("\n")),
    lambda s: s.replace("é", "e\u0301"),
    lambda s: s + "  ",
]  # fmt: skip


@given(files(), st.lists(st.sampled_from(SLIPS), min_size=1, max_size=3))
@settings(max_examples=600, deadline=None)
def test_a_tolerant_edit_changes_one_place_and_nothing_beside(file, slips) -> None:
    data, find = file
    for slip in slips:
        find = slip(find)
    put = "@NEW@"
    try:
        new, _ = replaced(content(data), EditParams(file="f", find=find, replace=put), "f")
    except ToolFailure:
        return
    text = decode(data)
    assert text is not None
    mark = text.encode(put)
    at = new.index(mark)
    head, tail = new[:at], new[at + len(mark) :]
    assert data.startswith(head) and data.endswith(tail) and len(head) + len(tail) < len(data)
    gone = (
        text.encode("").decode() if False else data[len(head) : len(data) - len(tail)].decode(text.encoding, "replace")
    )
    assert bare(gone) == bare(find)  # only blanks and signs may differ between what was asked for and what went


def bare(text: str) -> str:
    for signs, plain in (("\u201c\u201d", '"'), ("\u2019", "'"), ("\u2014", "-"), ("é", "e\u0301")):
        for sign in signs:
            text = text.replace(sign, plain)
    return "".join(text.split())


@given(st.binary(max_size=300))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_put_together_again_as_they_were(data: bytes) -> None:
    text = decode(data)
    if text is not None:
        assert text.bom + text.encode(text.text) == data
        assert text.spliced([], lambda start, end: "") == data


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("latin-1", "Grüße: café\n"),
        ("cp1252", "price €5 “q”\n"),
        ("shift_jis", "日本語のテキストです。今日は天気がいい。\n" * 3),
        ("gb18030", "这是一个中文测试文件\n" * 3),
        ("cp1251", "Привет мир, это русский текст\n" * 3),
        ("utf-16-le", "wide without a mark\n"),
        ("utf-16", "wide with a mark é\n"),
        ("utf-8-sig", "marked é\n"),
    ],
)
def test_a_common_encoding_is_read_as_it_was_meant(encoding: str, written: str) -> None:
    text = decode(written.encode(encoding))
    assert text is not None
    assert text.text == written
