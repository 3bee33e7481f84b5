"""Servers that ask the model: the user decides each time, and the answer comes from a request of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.core.session import Session
from agent.errors import ServerUnavailable
from agent.events import Notice
from agent.forms import Form, FormAsked, FormSettled
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.host import Sampling
from agent.wiring.sampling import ANSWER, QUESTION, Sampler, request_of
from tests.fakes.core import ScriptedModel, finish, open_session, text
from tests.tools.mcp.conftest import MakePool, call, until
from tests.tools.mcp.test_real_servers import node_server, ready

ASK = {"prompt": "Why is the sea salty?", "maxTokens": 50}


class User:
    """Answers forms with `choice`; None leaves them open."""

    def __init__(self, session: Session, choice: str | None) -> None:
        self.choice = choice
        self.seen: list[Form] = []
        self.open: set[str] = set()
        self.notices: list[str] = []
        self._session, self._heard = session, session.subscribe()
        self.task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for event in self._heard:
            if isinstance(event, FormAsked):
                self.seen.append(event.form)
                self.open.add(event.request_id)
                if self.choice is not None:
                    self._session.forms.fill(event.request_id, self.choice, {})
            elif isinstance(event, FormSettled):
                self.open.discard(event.request_id)
            elif isinstance(event, Notice):
                self.notices.append(event.text)


Begin = Callable[..., tuple[Session, User]]


@pytest.fixture
async def begin() -> AsyncIterator[Begin]:
    made: list[tuple[Session, User]] = []

    def start(model: ScriptedModel, choice: str | None) -> tuple[Session, User]:
        session = open_session(model)
        made.append((session, User(session, choice)))
        return made[-1]

    yield start
    for session, user in made:
        await session.close()
        user.task.cancel()


def everything(servers: Path, **more: Any) -> dict[str, Any]:
    return {"all": node_server(servers, "mcp-server-everything", "stdio", **more)}


async def test_the_user_is_shown_the_question_and_the_server_gets_the_answer(
    pools: MakePool, servers: Path, begin: Begin
) -> None:
    model = ScriptedModel(text("hello"), text("Rivers."))
    session, user = begin(model, "yes")
    session.submit("hi")
    await session.idle()
    pool = pools(everything(servers, sampling=True), sample=Sampler(lambda: session, model))
    await ready(pool, "all")
    output = await call(pool, "mcp__all__trigger-sampling-request", ASK)
    assert not output.failed and "Rivers." in output.text and '"stopReason": "endTurn"' in output.text
    (form,) = user.seen
    assert form.title == "MCP server all wants to ask the model" and form.choices[form.default][0] == "no"
    assert "Why is the sea salty?" in form.text and "up to 50 tokens" in form.text
    assert "reading 10 tokens of this conversation again" in form.text
    asked = model.requests[1]
    assert asked.max_tokens == 50 and asked.tools == "" and asked.thinking is False
    assert "hi" not in [m.text for m in asked.messages] and len(session.request().messages) == 2
    await until(lambda: user.notices == ["MCP server all got this answer: Rivers."])


async def test_a_refusal_and_a_model_that_is_away_are_the_protocols_errors(
    pools: MakePool, servers: Path, begin: Begin
) -> None:
    model = ScriptedModel([ServerUnavailable("the engine is not there")])
    session, user = begin(model, "no")
    pool = pools(everything(servers, sampling=True), sample=Sampler(lambda: session, model))
    await ready(pool, "all")
    output = await call(pool, "mcp__all__trigger-sampling-request", ASK)
    assert output.failed and "-1" in output.text and "the user does not want it" in output.text
    assert not model.requests
    user.choice = "yes"
    output = await call(pool, "mcp__all__trigger-sampling-request", ASK)
    assert output.failed and "-32603" in output.text and "the engine is not there" in output.text


async def test_a_server_that_was_not_allowed_to_is_not_told_that_it_could(
    pools: MakePool, servers: Path, begin: Begin
) -> None:
    session, _ = begin(ScriptedModel(), "yes")
    pool = pools(everything(servers), sample=Sampler(lambda: session, ScriptedModel()))
    state = await ready(pool, "all")
    assert "trigger-sampling-request" not in [t.name for t in state.tools]


async def test_a_question_goes_with_the_call_that_is_stopped(pools: MakePool, servers: Path, begin: Begin) -> None:
    model = ScriptedModel()
    session, user = begin(model, None)
    pool = pools(everything(servers, sampling=True), sample=Sampler(lambda: session, model))
    await ready(pool, "all")
    running = asyncio.create_task(call(pool, "mcp__all__trigger-sampling-request", ASK))
    await until(lambda: user.open)
    running.cancel()
    await asyncio.wait([running])
    await until(lambda: not user.open)
    assert not (await call(pool, "mcp__all__echo", {"message": "still here"})).failed and not model.requests


async def test_an_answer_that_is_cut_says_so(begin: Begin) -> None:
    cut = [*text("All the")[:-1], finish("length")]
    model = ScriptedModel(cut)
    session, _ = begin(model, "yes")
    answer = await Sampler(lambda: session, model)(Sampling("s", [("user", "count")], "", 5_000))
    assert answer.cut and answer.text == "Allthe" and model.requests[0].max_tokens == ANSWER


def test_what_no_template_can_take_is_refused_and_neighbours_are_joined() -> None:
    request = request_of(Sampling("s", [("user", "a"), ("user", "b"), ("assistant", "c"), ("user", "d")], "sys", 0))
    assert [m.text for m in request.messages] == ["a\n\nb", "c", "d"] and request.max_tokens == 1
    for messages in ([], [("assistant", "a")], [("user", "a"), ("assistant", "b")], [("user", "x" * (QUESTION + 1))]):
        with pytest.raises(Fault, match="its question"):
            request_of(Sampling("s", messages, "", 10))
