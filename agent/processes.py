"""What runs in a shell and outlives a call, or never was one: plain data."""

from __future__ import annotations

from dataclasses import dataclass

SHELL_CALL = "shell-"  # what the ids of the user's own commands begin with


@dataclass(frozen=True, slots=True)
class Process:
    """A command that was started and still runs. `ports`: where it listens. `asks`: the lines at which it waits for
    the user; None: it waits for nobody. `keys`: it takes single keys rather than lines. `hidden`: what is typed there
    is not to be shown."""

    id: str
    command: str
    pids: tuple[int, ...]
    ports: tuple[int, ...] = ()
    asks: str | None = None
    keys: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class ShellStarted:
    """The user runs a command himself; its progress comes under `call_id`."""

    call_id: str
    command: str


@dataclass(frozen=True, slots=True)
class ShellEnded:
    """`text`: what the model reads of it, along with the user's next message."""

    call_id: str
    command: str
    text: str
    failed: bool
    seconds: float
