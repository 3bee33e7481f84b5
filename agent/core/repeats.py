"""What a model does again and again. Pure: calls and results in, numbers out."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.events import ResultAdded
from agent.messages import ToolCall

TIMES = 3  # the same once more may be a slip; a third time nothing new will come of it
LONGEST_CYCLE = 4  # steps: read, edit, test, read, edit, test
PATIENT = 5.0  # seconds: a call that takes so long and succeeds waits for something, and may well be made again


@dataclass(frozen=True, slots=True)
class Made:
    """One call with what came of it."""

    name: str
    arguments: str
    outcome: str


class Trail:
    """The steps of one turn. `made` records a call, `step` closes the step."""

    def __init__(self) -> None:
        self._steps: list[tuple[Made, ...]] = []
        self._now: list[Made] = []
        self._patient = 0

    def made(self, call: ToolCall, result: ResultAdded) -> bool:
        """True when the step before made the very same call in the same place, with the same result."""
        if result.failed or result.seconds < PATIENT:
            one = Made(call.name, same_arguments(call.arguments), _outcome(result))
        else:
            self._patient += 1
            one = Made(call.name, "", f"patient {self._patient}")
        self._now.append(one)
        before = self._steps[-1] if self._steps else ()
        return len(before) >= len(self._now) and before[len(self._now) - 1] == one

    def step(self) -> bool:
        """True when the last steps are one step, or a cycle of steps, three times over."""
        self._steps.append(tuple(self._now))
        self._now = []
        steps = self._steps
        return any(
            len(steps) >= TIMES * n and all(steps[-n:] == steps[-n * (k + 1) : -n * k] for k in range(1, TIMES))
            for n in range(1, LONGEST_CYCLE + 1)
        )

    def forget(self) -> None:
        """The user has spoken: what comes now is something new."""
        self._steps.clear()
        self._now = []


def duplicates(calls: Sequence[ToolCall]) -> frozenset[str]:
    """Ids of calls in one reply that only say again what the ones before said: the same call several times in a row, or
    the whole list several times over. Between two equal calls with another one between them things may have changed."""
    keys = [(c.name, same_arguments(c.arguments)) for c in calls]
    again = {calls[n].id for n in range(1, len(calls)) if keys[n] == keys[n - 1]}
    for length in range(2, len(calls) // 2 + 1):
        if len(calls) % length == 0 and all(keys[n] == keys[n % length] for n in range(len(calls))):
            again |= {c.id for c in calls[length:]}
            break
    return frozenset(again)


def same_arguments(raw: str) -> str:
    """The same for arguments that differ in blanks and order only."""
    try:
        return json.dumps(json.loads(raw), sort_keys=True)
    except (ValueError, RecursionError):
        return raw.strip()


def _outcome(result: ResultAdded) -> str:
    """Figures in a failure (a time, a process id) make no new failure."""
    text = re.sub(r"\d+", "0", result.text) if result.failed else result.text
    return f"{'failed' if result.failed else 'ok'} {text}"


def unrepeated(text: str, piece: str) -> str:
    """A reply that repeats `piece` without end, with three of them: all of it would lead the model on to more."""
    if piece.isspace():
        return text.rstrip()
    whole = text
    while piece and text.endswith(piece):
        text = text.removesuffix(piece)
    return text + piece * min(TIMES, (len(whole) - len(text)) // len(piece))
