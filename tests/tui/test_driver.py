"""No byte on standard input can hurt."""

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from agent.tui.driver import Pasted, Sieve


def fed(*pieces: bytes) -> list:
    sieve = Sieve()
    return [x for p in pieces for x in (sieve.feed(p) if p else sieve.idle())]


def test_bytes_that_are_no_utf8_are_dropped():
    assert fed(b"\x80", b"a\xffb") == ["ab"]


def test_a_letter_in_two_pieces_arrives():
    assert fed(b"\xe4\xbf", b"\xae") == ["修"]


def test_old_mouse_reports_leave_no_letters():
    assert fed(b"\x1b[M \x8e*", b"x") == ["x"]
    assert fed(b"\x1b[M ", b"\x8e*x") == ["x"]


def test_word_of_the_windows_focus_is_dropped():
    assert fed(b"a\x1b[O\x1b[Ib", b"\x1b[", b"Ic") == ["ab", "c"]


def test_half_a_sequence_is_forgotten_when_nothing_follows():
    assert fed(b"\x1b[", b"", b"x") == ["x"]
    assert fed(b"\x1b[", b"A") == ["\x1b[A"]


def test_escape_alone_is_not_held_back():
    assert fed(b"\x1b") == ["\x1b"]


def test_a_paste_of_a_megabyte_arrives_whole_in_any_pieces():
    text = "zeile [x] ü\n" * 90_000
    data = b"a\x1b[200~" + text.encode() + b"\x1b[201~b"
    out = fed(*(data[n : n + 4099] for n in range(0, len(data), 4099)))
    assert out == ["a", Pasted(text), "b"]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"\x1b\r", ["alt+enter"]),
        (b"\x1b\n", ["alt+enter"]),
        (b"\x1b[27;3;13~", ["alt+enter"]),
        (b"\x1b[27;2;13~", ["shift+enter"]),
        (b"\x1b[13;3u", ["alt+enter"]),
        (b"\r", ["enter"]),
        (b"a\x1b\rb", ["a", "alt+enter", "b"]),
    ],
)
def test_alt_enter_is_understood_as_every_terminal_sends_it(sent: bytes, keys: list[str]):
    parser = XTermParser(False)
    messages = [m for text in fed(sent) for m in parser.feed(text)]
    messages += parser.feed("")
    assert [m.key for m in messages if isinstance(m, events.Key)] == keys
