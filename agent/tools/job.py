"""One command and its offspring: which processes belong to it, what it says, what is typed into it. Starts nothing and
ends nothing.

We are the reaper of our orphans, so whatever a command starts stays below us in the process tree. There it is told from
the product's own helpers (the engine, MCP servers) by what it inherited: the session, a mark in the environment, or an
open file that only that command was given. What has shed all three is nobody we know, and is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping

from agent.tools import proc
from agent.tools.output import Output
from agent.tools.proc import Proc
from agent.tools.terminal import Terminal

MARK = "DFLASH_COMMAND"
KILLED = 1.0  # seconds in which KILL has to work, and new forks are still hunted
ASKED_LINES = 6  # of the output, so that the user sees what a program asks


class Job:
    """`typed`: monotonic seconds of the last input. `asks`: see agent.protocols.Process."""

    def __init__(self, number: int, command: str, terminal: Terminal, output: Output) -> None:
        self.id = str(number)
        self.command = command
        self.terminal = terminal
        self.output = output
        self.started = self.typed = time.monotonic()
        self.told = 0  # the offset up to which the model has read the output
        self.background = False
        self.gone = False
        self.why = ""  # why it was stopped
        self.asks: str | None = None
        self.ports: tuple[int, ...] = ()
        self.pids: tuple[int, ...] = ()
        self._known: dict[int, int] = {}  # pid and start of all that were ever seen to belong to it
        self._tether = f"/memfd:{Terminal.tether(terminal.mark)} (deleted)"

    @property
    def over(self) -> bool:
        """Has the command itself ended?"""
        return self.terminal.over.is_set()

    @property
    def title(self) -> str:
        line = self.command.strip().split("\n", 1)[0]
        return line if len(line) <= 60 else line[:59] + "…"

    def text(self) -> str:
        """Its output for the model, both ends of it where it is long."""
        return self.output.text(f"the rest with process read {self.id}")

    def last_lines(self) -> str:
        """The end of what it has said, without empty lines."""
        return "\n".join(x for x in self.output.tail.split("\n")[-ASKED_LINES:] if x.strip())

    def members(self, table: Mapping[int, Proc]) -> tuple[Proc, ...]:
        """What is alive of it, without the leader. Dead orphans are reaped on the way."""
        if self.gone:
            return ()
        me, leader = os.getpid(), self.terminal.leader
        found = {p.pid for p in table.values() if p.pid != leader and self._owns(p)}
        while grown := {p.pid for p in table.values() if p.parent in found} - found:
            found |= grown
        for pid in found:
            self._known[pid] = table[pid].start
            if table[pid].state == "Z" and table[pid].parent == me:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        alive = tuple(table[pid] for pid in sorted(found) if table[pid].alive)
        self.pids = tuple(p.pid for p in alive)
        return alive

    def _owns(self, process: Proc) -> bool:
        if process.session == self.terminal.leader or self._known.get(process.pid) == process.start:
            return True
        if not process.alive:
            return False
        mark = f"{MARK}={self.terminal.mark}"
        return proc.has_variable(process.pid, mark) or self._tether in proc.files(process.pid).values()

    def type(self, text: str) -> None:
        """A line, or a single key as the terminal would send it. Raises OSError where nobody reads."""
        single = text[:1] == "\x1b" or (len(text) == 1 and text < " ")
        data = (text if single else text + "\r").encode("utf-8", "replace")
        self.typed = time.monotonic()
        if not self.terminal.keys()[0]:  # a menu goes on asking with each key
            self.asks = None
        while data:
            taken = self.terminal.write(data)
            if not taken:
                raise BlockingIOError("the terminal's input is full; it is not being read")
            data = data[taken:]

    async def finish(self) -> None:
        """The last words are taken in and all is let go. Nothing of it may be alive."""
        self.gone = True
        self.pids, self.ports, self.asks = (), (), None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.terminal.over.wait(), KILLED)
        await self.terminal.drain()
        self.terminal.close()
        self.output.end()
