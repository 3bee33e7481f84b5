"""How thinking is written down as a setting: on, off, or the most tokens it may take."""

from __future__ import annotations


def word(thinking: bool | int) -> str:
    if isinstance(thinking, bool):
        return "on" if thinking else "off"
    return str(thinking)


def from_word(text: str) -> bool | int:
    return int(text) if text.isdecimal() else text == "on"
