"""Bytes of a text file as text, so that it can be found and changed without touching any byte beside. What cannot be
taken apart and put together again to the very same bytes is not text here."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from charset_normalizer import from_bytes

BOMS = (  # the longer first: the mark of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
SAMPLE = 64_000  # bytes that are looked at to guess an encoding
ODD = frozenset(range(32)) - frozenset(b"\t\n\r\f\b\x1b")
ODD_SHARE = 0.02  # more control characters than this: no text
SHIFTING = ("utf_7", "hz", "iso2022", "iso_2022")  # what a byte means depends on those before it
WESTERN = ("cp1252", "latin-1")
WEST = frozenset(("English", "French", "German", "Spanish", "Italian", "Portuguese", "Dutch", "Swedish", "Danish"))
DENSE = 0.3  # of the characters take several bytes: what East Asian text has and a wrong guess has not


@dataclass(frozen=True, slots=True)
class Text:
    """`text` without its byte order mark, line ends as they are. `errors`: how bytes that fit no encoding are kept."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"

    def encode(self, text: str) -> bytes:
        """Without the mark. Raises UnicodeEncodeError for what this encoding has no sign for."""
        return text.encode(self.encoding, self.errors)

    def spliced(self, spans: Sequence[tuple[int, int]], put: Callable[[int, int], str]) -> bytes:
        """All bytes, with what `put` says in place of each span (characters, in order, apart). Raises
        UnicodeEncodeError."""
        pieces, at = [self.bom], 0
        for start, end in spans:
            pieces += [self.encode(self.text[at:start]), self.encode(put(start, end))]
            at = end
        return b"".join([*pieces, self.encode(self.text[at:])])

    @property
    def shown(self) -> str:
        """For reading: bytes that fit no encoding as U+FFFD."""
        if self.errors == "strict":
            return self.text
        return self.text.encode("utf-8", self.errors).decode("utf-8", "replace")

    @property
    def newline(self) -> str:
        """The line end that most lines have; \\n where there are none."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf and crlf * 2 > self.text.count("\n") else "\n"


def decode(data: bytes) -> Text | None:
    """None for what is no text."""
    for bom, encoding in BOMS:
        if data.startswith(bom) and (found := _as(data, encoding, bom)):
            return found
    if b"\0" in data:
        return _wide(data)
    if found := _as(data, "utf-8"):
        return found
    sample = data[:SAMPLE]
    if sum(byte in ODD for byte in sample) > ODD_SHARE * len(sample):
        return None
    return _broken_utf8(data) or next((text for name in _guesses(sample) if (text := _as(data, name))), None)


def _as(data: bytes, encoding: str, bom: bytes = b"") -> Text | None:
    try:
        text = data[len(bom) :].decode(encoding)
        same = bom + text.encode(encoding) == data
    except (UnicodeError, LookupError):
        return None
    return Text(text, encoding, bom) if same else None


def _wide(data: bytes) -> Text | None:
    """UTF-16 without a mark: every other byte of common text is zero."""
    for encoding, zeros in (("utf-16-le", data[1::2]), ("utf-16-be", data[0::2])):
        if len(data) % 2 == 0 and zeros.count(0) > 0.4 * len(zeros):
            found = _as(data, encoding)
            if found and "\0" not in found.text and not any(ord(c) in ODD for c in found.text[:SAMPLE]):
                return found
    return None


def _broken_utf8(data: bytes) -> Text | None:
    """UTF-8 with some bytes that are not: those are kept as they are."""
    text = data.decode("utf-8", "surrogateescape")
    bad = sum("\udc80" <= c <= "\udcff" for c in text)
    good = sum(c > "\x7f" for c in text) - bad
    return Text(text, "utf-8", b"", "surrogateescape") if good > bad else None


def _guesses(sample: bytes) -> Sequence[str]:
    """Western encodings differ in signs that short texts do not have: the one that is everywhere comes first there."""
    best = from_bytes(sample).best()
    if best is None or best.encoding.startswith(SHIFTING):
        return WESTERN
    language = best.languages[0] if best.languages else ""
    sure = bool(language and language not in WEST) or best.multi_byte_usage > DENSE
    return (best.encoding, *WESTERN) if sure else WESTERN
