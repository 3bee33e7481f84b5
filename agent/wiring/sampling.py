"""What an MCP server wants the model to answer (sampling): asked of the user each time, then a request of its own. It
holds nothing of the conversation, and its answer is small, since one engine serves both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby

from agent.core.cache import held
from agent.core.session import Session
from agent.errors import ModelFault
from agent.events import Notice
from agent.forms import Form
from agent.messages import AssistantMessage, UserMessage
from agent.protocols import FinishChunk, ModelClient, ModelRequest, TextChunk
from agent.tools.mcp.faults import Fault
from agent.tools.mcp.host import Sampled, Sampling

ANSWER = 1_000  # tokens of an answer, whatever the server would like
QUESTION = 16_000  # characters of all that it says: about 4,000 tokens
SHOWN = 2_000  # characters of question and answer that the user is shown


class Sampler:
    """`session`: through which the user is asked. One request at a time."""

    def __init__(self, session: Callable[[], Session], model: ModelClient) -> None:
        self._session = session
        self._model = model
        self._one = asyncio.Lock()

    async def __call__(self, wish: Sampling) -> Sampled:
        """Raises Fault when it cannot be, or the user does not want it."""
        request = request_of(wish)
        async with self._one:
            session = self._session()
            form = form_of(wish, request.max_tokens or ANSWER, held(session.past) or 0)
            if (await session.forms.ask(form)).choice != "yes":
                raise Fault("refused", "the user does not want it")
            answer = await self._answer(request, session)
        session.publish(Notice("info", f"MCP server {wish.server} got this answer: {shortened(answer.text)}"))
        return answer

    async def _answer(self, request: ModelRequest, session: Session) -> Sampled:
        text, end = "", None
        stream = self._model.stream(request)
        try:
            async for chunk in stream:
                if isinstance(chunk, TextChunk):
                    text += chunk.text
                elif isinstance(chunk, FinishChunk):
                    end = chunk.reason
        except ModelFault as fault:
            raise Fault("lost", f"the model did not answer: {fault}") from fault
        finally:
            await stream.aclose()
        return Sampled(text, session.endpoint.model if session.endpoint else "", cut=end == "length")


def request_of(wish: Sampling) -> ModelRequest:
    """Raises Fault for what no model can be asked. What one side says in several messages is one: templates want the
    sides to take turns."""
    size = len(wish.system) + sum(len(text) for _, text in wish.messages)
    if size > QUESTION:
        raise Fault("refused", f"its question has {size:,} characters; {QUESTION:,} are allowed")
    said = [(role, "\n\n".join(t for _, t in part)) for role, part in groupby(wish.messages, lambda m: m[0])]
    if not said or said[0][0] != "user" or said[-1][0] != "user":
        raise Fault("refused", "its question must begin and end with what a user says")
    messages = tuple(
        UserMessage(f"s{n}", text) if role == "user" else AssistantMessage(f"s{n}", text)
        for n, (role, text) in enumerate(said)
    )
    return ModelRequest(wish.system, "", messages, max(1, min(wish.max_tokens, ANSWER)), thinking=False)


def form_of(wish: Sampling, answer: int, holds: int) -> Form:
    said = [("system", wish.system), *wish.messages] if wish.system else list(wish.messages)
    cost = f" It may cost reading {holds:,} tokens of this conversation again." if holds else ""
    text = (
        f"{lines(said)}\n\nIt would get up to {answer:,} tokens of an answer, and nothing of this conversation.{cost}"
    )
    choices = (("yes", "ask the model"), ("no", "no"))
    return Form(f"MCP server {wish.server} wants to ask the model", text, choices, default=1)


def lines(said: Sequence[tuple[str, str]]) -> str:
    return shortened("\n".join(f"{role}: {text}" for role, text in said))


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} […]"
