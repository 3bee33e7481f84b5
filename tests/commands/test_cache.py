"""`/cache`, on sessions whose requests really went to a server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.commands.cache import cache_command
from agent.core.session import Session
from agent.errors import ConfigError
from agent.events import AssistantAdded, Endpoint, Reread
from agent.messages import AssistantMessage, Timings
from tests.fakes.core import ScriptedModel, open_session

HERE = Endpoint("http://127.0.0.1:1", "key", "m", engine="b1", rewrites=())


def added(turn: int, cached: int, prompt: int, reread: Reread | None = None) -> AssistantAdded:
    message = AssistantMessage(f"m{turn}{prompt}", "words", timings=Timings(cache_n=cached, prompt_n=prompt - cached))
    return AssistantAdded(turn, message, 1.0, reread)


async def said(session: Session, endpoint: Endpoint, argument: str = "") -> str:
    async def ready() -> Endpoint:
        return endpoint

    answer = await cache_command(lambda: session, ready).run(argument)
    await session.close()
    return getattr(answer, "text", "")


async def test_each_break_is_told_with_its_turn_and_step() -> None:
    session = open_session(ScriptedModel())
    session.publish(added(1, 0, 100))
    session.publish(added(1, 100, 200))
    session.publish(added(2, 50, 300, Reread(150, "tools", "the tool block: late came in")))
    text = await said(session, HERE)
    assert text.splitlines() == [
        "25% of the prompts came from the cache (150 of 600 tokens, 3 requests).",
        "The server's chat template keeps every earlier byte.",
        "Read again:",
        "  turn 2, step 1: 150 tokens again · the tool block: late came in",
    ]


async def test_a_session_without_a_break_says_so_and_a_template_is_described() -> None:
    session = open_session(ScriptedModel())
    session.publish(added(1, 90, 100))
    text = await said(session, replace(HERE, rewrites=("reply", "order")))
    assert "it begins a reply in history otherwise than the model wrote it; it sorts the arguments of a call." in text
    assert text.endswith("Nothing was read twice.")


async def test_before_the_first_request_and_with_an_unknown_server_nothing_is_made_up() -> None:
    text = await said(open_session(ScriptedModel()), replace(HERE, rewrites=None))
    assert "No request yet" in text and "cannot be asked" in text and "Nothing was read twice" not in text


async def test_an_unknown_argument_is_refused_with_what_there_is() -> None:
    session = open_session(ScriptedModel())
    with pytest.raises(ConfigError, match="/cache read"):
        await said(session, HERE, "everything")
    await session.close()
