"""How the end of a command, and what goes on without it, is said to the model. Pure."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Literal, TypeAlias

from agent.tools.job import Job
from agent.tools.jobs import SHOWN
from agent.tools.shell import Left

Why: TypeAlias = Literal["over", "timeout", "output", "port", "long", "input", "wanted"]


def joined(text: str, lines: Sequence[str]) -> str:
    return "\n".join(part for part in (text.rstrip("\n"), *lines) if part)


def status(code: int | None, left: Left | None) -> str:
    """A shell says 128 + N both for signal N and for an exit status of that number; what the command's own shell knew
    at its end tells them apart. One that a signal ends knows the status of the command before it."""
    if code is None:
        return "[ended by a signal]"
    ended = left is None or (left.status != code and bool(_signal_name(code)))
    number = code if left is None or ended else left.status
    name = _signal_name(number)
    if name and ended:
        return f"[ended by signal {number - 128} ({name})]"
    return f"[exit status {number} ({name})]" if name else f"[exit status {number}]"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number - 128).name
    except ValueError:
        return ""


def status_of(job: Job) -> str:
    return f" with exit status {job.terminal.code}" if job.terminal.code is not None else ""


def running(job: Job) -> str:
    """`3: pid 41 (sleep 300), listening on 8000; process stop 3 ends it`"""
    more = len(job.pids) - SHOWN
    pids = ", ".join(map(str, job.pids[:SHOWN])) + (f" and {more} more" if more > 0 else "")
    return f"{job.id} ({job.title}), pid {pids or '?'}{_listening(job)}"


def going_on(job: Job, why: Why) -> list[str]:
    """For a command that is handed back before its end."""
    reasons = {
        "port": "it listens on a port",
        "long": "it takes long",
        "input": "it waits for input",
    }
    because = f", since {reasons[why]}" if why in reasons else ""
    lines = [f"[running in the background{because}: {running(job)}]"]
    if why == "input":
        lines.append(waiting(job))
    return lines


def waiting(job: Job) -> str:
    return f"[{job.id} waits for input: answer with process write {job.id} (empty text is Enter), or stop it]"


def _listening(job: Job) -> str:
    return f", listening on {', '.join(map(str, job.ports))}" if job.ports else ""
