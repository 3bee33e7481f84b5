"""What the user has said and the model has not been told yet: messages for turns of their own, and words that join the
running turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agent.events import Event, QueueChanged


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that waits for its turn. `shown`: what the user wrote, where `text` says more. `allowed`: tools the
    turn keeps to, as in `narrowing`; empty for all. `points`: what is to be done."""

    text: str
    shown: str = ""
    allowed: tuple[str, ...] = ()
    points: tuple[str, ...] = ()


class WaitingLine:
    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._messages: deque[Waiting] = deque()
        self._steering: deque[str] = deque()

    def __bool__(self) -> bool:
        """Does a message wait for a turn of its own?"""
        return bool(self._messages)

    @property
    def steering(self) -> bool:
        return bool(self._steering)

    def add(self, message: Waiting) -> None:
        self._messages.append(message)

    def steer(self, text: str) -> None:
        self._steering.append(text)
        self.show()

    def next(self) -> Waiting:
        return self._messages.popleft()

    @property
    def words(self) -> str:
        """All the steering as one message; empty when there is none."""
        return "\n\n".join(self._steering)

    def take_steering(self) -> str:
        text = self.words
        self._steering.clear()
        return text

    def too_late(self) -> None:
        """The turn that the steering was meant for is over: it becomes the next messages."""
        while self._steering:
            self._messages.appendleft(Waiting(self._steering.pop()))

    def take_back(self) -> tuple[str, ...]:
        """What waits, in that order; it waits no longer."""
        unsent = (*self._steering, *(w.shown or w.text for w in self._messages))
        self._steering.clear()
        self._messages.clear()
        if unsent:
            self.show()
        return unsent

    def show(self) -> None:
        waiting = (w.shown or w.text for w in self._messages)
        self._publish(QueueChanged((*self._steering, *waiting), len(self._steering)))
