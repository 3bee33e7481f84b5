from __future__ import annotations

import pytest

from agent.commands.base import Said
from agent.commands.server import server_command
from agent.errors import ConfigError
from agent.events import Endpoint, ServerState


class CountingServer:
    """Says what it was asked to do."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.state = ServerState("stopped")

    def suspect(self, why: str) -> None:
        pass

    async def ensure_ready(self) -> Endpoint:
        self.did.append("start")
        return Endpoint("http://127.0.0.1:1", "", "m")

    async def stop(self) -> None:
        self.did.append("stop")


class Room:
    async def describe(self) -> str:
        return "it runs"

    def log(self) -> list[str]:
        return ["one", "two"]


@pytest.mark.parametrize(
    ("argument", "did", "said"),
    [
        ("", [], "it runs"),
        ("status", [], "it runs"),
        ("logs", [], "one\ntwo"),
        ("stop", ["stop"], "The engine was stopped"),
        ("restart", ["stop", "start"], "started anew"),
    ],
)
async def test_the_engine_is_seen_and_steered(argument: str, did: list[str], said: str) -> None:
    server = CountingServer()
    answer = await server_command(lambda: server, Room(), attached=lambda: False, running=lambda: False).run(argument)
    assert isinstance(answer, Said) and said in answer.text
    assert server.did == did


@pytest.mark.parametrize("argument", ["stop", "restart", "logs"])
async def test_a_server_of_somebody_else_is_left_alone(argument: str) -> None:
    server = CountingServer()
    command = server_command(lambda: server, Room(), attached=lambda: True, running=lambda: False)
    with pytest.raises(ConfigError, match="not ours"):
        await command.run(argument)
    assert server.did == []


async def test_a_word_that_is_no_verb_is_named() -> None:
    with pytest.raises(ConfigError, match=r"restart.*'dance'"):
        await server_command(CountingServer, Room(), attached=lambda: False, running=lambda: False).run("dance")


async def test_an_engine_that_a_turn_would_start_again_is_not_stopped() -> None:
    server = CountingServer()
    command = server_command(lambda: server, Room(), attached=lambda: False, running=lambda: True)
    with pytest.raises(ConfigError, match="stop it first"):
        await command.run("stop")
    assert server.did == []
