"""A reply's tokens and drafts by the kind of text they became, from the counters that a llama-server sends along with
each piece (`timings_per_token`). Pure."""

from __future__ import annotations

from agent.messages import KINDS, Kind, Share, Timings
from agent.protocols import CallChunk, ModelChunk, TextChunk, ThinkingChunk

FENCE = "```"


class Split:
    """Feed it each piece and then the counters that came with it. Counters that jump belong to the piece they came
    with: the drafts of a step are counted at its first token."""

    def __init__(self) -> None:
        self._kind: Kind | None = None
        self._line = ""  # the beginning of the line that is being written
        self._fence = ""  # what opened the code we are in
        self._last = Timings()
        self._reports = 0
        self._counts: dict[Kind, list[int]] = {}

    def wrote(self, chunk: ModelChunk) -> None:
        match chunk:
            case ThinkingChunk():
                self._kind = "thinking"
            case CallChunk():
                self._kind = "calls"
            case TextChunk(text=text):
                inside = bool(self._fence)
                self._follow(text)
                self._kind = "code" if inside or self._fence else "prose"
            case _:
                pass

    def counted(self, timings: Timings) -> None:
        last, self._last = self._last, timings
        if self._kind is None:  # the prompt is still being read
            return
        self._reports += 1
        counts = self._counts.setdefault(self._kind, [0, 0, 0])
        for n, (new, old) in enumerate(
            (
                (timings.predicted_n, last.predicted_n),
                (timings.draft_n, last.draft_n),
                (timings.draft_n_accepted, last.draft_n_accepted),
            )
        ):
            counts[n] += max(0, (new or 0) - (old or 0))

    def shares(self) -> tuple[Share, ...]:
        """Empty where counters came once only, at the end."""
        if self._reports < 2:
            return ()
        return tuple(Share(kind, *self._counts[kind]) for kind in KINDS if any(self._counts.get(kind, ())))

    def _follow(self, text: str) -> None:
        """Opens and closes code at lines that begin with three backticks or more."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._end_line((self._line + line).strip())
            self._line = ""
        self._line = (self._line + rest)[:80]

    def _end_line(self, line: str) -> None:
        marks = line[: len(line) - len(line.lstrip("`"))]
        if len(marks) < len(FENCE):
            return
        if not self._fence:
            self._fence = marks
        elif line == marks and len(marks) >= len(self._fence):
            self._fence = ""
