"""Commands about the model server and this run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from agent.commands.base import Answer, Command, Said
from agent.commands.table import listed
from agent.core.session import Session
from agent.errors import ConfigError
from agent.protocols import Server

VERBS = ("status", "restart", "stop", "logs")


class EngineRoom(Protocol):
    """What can be seen of the engine that serves this run."""

    async def describe(self) -> str: ...
    def log(self) -> Sequence[str]:
        """Its last lines; empty where there is no log of ours."""
        ...


def server_command(
    server: Callable[[], Server], room: EngineRoom, attached: Callable[[], bool], running: Callable[[], bool]
) -> Command:
    """`running`: a turn is, and would start a stopped engine again."""

    async def run(argument: str) -> Answer:
        verb = argument or "status"
        if verb not in VERBS:
            raise ConfigError(f"/server knows {', '.join(VERBS)}; {argument!r} is none of them.")
        if verb == "status":
            return listed(await room.describe())
        if attached():
            raise ConfigError("The server is not ours: it is attached to by --server, and left alone.")
        if verb == "logs":
            return Said("\n".join(room.log()) or "No engine has run yet, so there is no log.")
        if verb == "stop" and running():
            raise ConfigError("A turn is running; stop it first (Esc).")
        await server().stop()
        if verb == "stop":
            return Said("The engine was stopped; the next message starts it again.")
        await server().ensure_ready()
        return Said("The engine was started anew; its cache is empty, so the next message is read whole.")

    def complete(written: str) -> Sequence[str]:
        return [v for v in VERBS if v.startswith(written)]

    return Command("server", "the engine: what runs and how", run, usage="[restart|stop|logs]", complete=complete)


def status_command(session: Callable[[], Session], folder: str, profile: Callable[[], str], version: str) -> Command:
    async def run(_argument: str) -> Answer:
        s = session()
        rows = (
            ("version", version),
            ("session", f"{s.id}, {s.turn} turn{'s' if s.turn != 1 else ''}"),
            ("go on later", f"dflash-agent -r {s.id}"),
            ("folder", folder),
            ("profile", profile()),
            ("permissions", f"mode {s.mode}"),
        )
        return listed("\n".join(f"{name:11}  {value}" for name, value in rows))

    return Command("status", "this session, folder and profile", run)


def doctor_command(examine: Callable[[], Awaitable[str]]) -> Command:
    async def run(_argument: str) -> Answer:
        return listed(await examine())

    return Command("doctor", "what is there, what is missing, what to do about it", run)
