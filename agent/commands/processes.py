"""The command for what runs in the background."""

from __future__ import annotations

from collections.abc import Sequence

from agent.commands.base import Answer, Command, Said
from agent.errors import ConfigError
from agent.events import Process
from agent.protocols import Processes


def processes_command(processes: Processes) -> Command:
    async def run(argument: str) -> Answer:
        verb, _, process_id = argument.partition(" ")
        if verb == "stop" and process_id.strip():
            return Said(await processes.stop(process_id.strip()))
        if argument:
            raise ConfigError("Write /processes to list them, or /processes stop ID.")
        return Said("\n".join(map(_line, processes.list())) or "Nothing runs in the background.")

    def complete(written: str) -> Sequence[str]:
        return [c for p in processes.list() if (c := f"stop {p.id}").startswith(written)]

    summary = "what runs in the background; stop it"
    return Command("processes", summary, run, usage="[stop ID]", aliases=("ps", "bashes"), complete=complete)


def _line(process: Process) -> str:
    ports = f"  listens on {', '.join(map(str, process.ports))}" if process.ports else ""
    asks = "  waits for input" if process.asks is not None else ""
    return f"{process.id}  {process.command}  pid {', '.join(map(str, process.pids))}{ports}{asks}"
