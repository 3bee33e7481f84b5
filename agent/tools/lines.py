"""What a terminal shows, as text that only grows at its end: a progress bar is its last form, colours are gone, a menu
that is drawn again stands there once. Knows no processes and no files."""

from __future__ import annotations

import re

ROWS = 40  # that may still change; what programs draw again (menus, lists of downloads) is no longer than a screen
MOST = 8_000  # characters that may still change, so that one endless line does not pile up
REST = 4_000  # characters of an escape sequence that may still be unfinished

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x08\x0a-\x1f\x7f]+)|(?P<move>[\r\n\b])"
    r"|\x1b\[(?P<private>[<-?]?)(?P<args>[0-;]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\`-~]|(?P<open>\x1b.*\Z)|[\x00-\x1f\x7f]",
    re.S,
)


class Lines:
    """`feed` returns what can no longer change; `tail` is the rest, with the line that is not finished at its end."""

    def __init__(self) -> None:
        self._text = ""  # while the cursor stands at the end of all
        self._rows: list[str] | None = None  # else
        self._row = self._column = 0
        self._rest = ""
        self._gone: list[str] = []

    @property
    def tail(self) -> str:
        return self._text if self._rows is None else "\n".join(self._rows)

    def feed(self, text: str) -> str:
        text = self._rest + text
        self._rest = ""
        if self._rows is None and not _CONTROL.search(text):
            self._text += text
        else:
            self._draw(text)
        if len(self._text) > MOST:
            self._let_go()
        gone = "".join(self._gone)
        self._gone.clear()
        return gone

    def end(self) -> str:
        """All that is left; nothing may be fed any more."""
        return self.tail

    def _let_go(self) -> None:
        cut = len(self._text)
        for _ in range(ROWS):
            cut = self._text.rfind("\n", 0, cut)
            if cut < 0:
                break
        cut = max(cut + 1, len(self._text) - MOST // 2)
        self._gone.append(self._text[:cut])
        self._text = self._text[cut:]

    # ---- drawing
    def _draw(self, text: str) -> None:
        if self._rows is None:
            self._rows = self._text.split("\n")
            self._row, self._column = len(self._rows) - 1, len(self._rows[-1])
        for token in _TOKEN.finditer(text):
            if words := token["text"]:
                self._write(words)
            elif move := token["move"]:
                self._move(move)
            elif final := token["final"]:
                self._control(token["private"], token["args"], final)
            elif unfinished := token["open"]:
                self._rest = unfinished[:REST]
        if self._row == len(self._rows) - 1 and self._column == len(self._rows[-1]):
            self._text, self._rows = "\n".join(self._rows), None
        elif len(self._rows) > 2 * ROWS or sum(map(len, self._rows)) > MOST:
            self._scroll()

    def _scroll(self) -> None:
        assert self._rows is not None
        out = min(self._row, max(0, len(self._rows) - ROWS))
        if out:
            self._gone.append("\n".join(self._rows[:out]) + "\n")
            del self._rows[:out]
            self._row -= out
        elif len(self._rows[self._row]) > MOST:
            row = self._rows[self._row]
            self._gone.append("\n".join([*self._rows[: self._row], row[:-REST]]))
            self._rows = [row[-REST:], *self._rows[self._row + 1 :]]
            self._row, self._column = 0, min(max(0, self._column - len(row) + REST), REST)

    def _write(self, text: str) -> None:
        assert self._rows is not None
        row = self._rows[self._row].ljust(self._column)
        self._rows[self._row] = row[: self._column] + text + row[self._column + len(text) :]
        self._column += len(text)

    def _move(self, move: str) -> None:
        assert self._rows is not None
        if move == "\n":
            self._row += 1
            if self._row == len(self._rows):
                self._rows.append("")
            self._column = 0
        elif move == "\r":
            self._column = 0
        else:
            self._column = max(0, self._column - 1)

    def _control(self, private: str, args: str, final: str) -> None:
        assert self._rows is not None
        if private:
            return
        numbers = [int(n) if n.isdecimal() else 0 for n in re.split("[;:]", args)]
        first = min(numbers[0], 10_000)
        step = max(first, 1)
        match final:
            case "A" | "B" | "E" | "F":
                down = step if final in "BE" else -step
                self._row = min(max(0, self._row + down), len(self._rows) - 1)
                self._column = 0 if final in "EF" else self._column
            case "C" | "D":
                self._column = max(0, self._column + (step if final == "C" else -step))
            case "G":
                self._column = step - 1
            case "H" | "f":
                self._row = min(step - 1, ROWS - 1)
                self._rows += [""] * (self._row + 1 - len(self._rows))
                self._column = max((numbers[1:] or [1])[0], 1) - 1
            case "K":
                self._erase_in_row(first)
            case "J":
                self._erase(first)
            case _:
                pass

    def _erase_in_row(self, which: int) -> None:
        assert self._rows is not None
        row = self._rows[self._row]
        if which == 0:
            self._rows[self._row] = row[: self._column]
        elif which == 1:
            self._rows[self._row] = " " * self._column + row[self._column :]
        else:
            self._rows[self._row] = ""

    def _erase(self, which: int) -> None:
        """A cleared screen is not lost: what stood there has been said."""
        assert self._rows is not None
        if which == 0:
            self._erase_in_row(0)
            del self._rows[self._row + 1 :]
        elif which >= 2:
            if any(self._rows):
                self._gone.append("\n".join(self._rows).rstrip("\n") + "\n")
            self._rows, self._row, self._column = [""], 0, 0
