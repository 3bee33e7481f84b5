"""The model client before it is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace

from agent.errors import BadReply, Looping, ServerUnavailable, Stalled
from agent.protocols import FinishChunk, ModelChunk, ModelClient, ModelRequest
from agent.runtime.metrics import Totals, drafts_between


class LateModel:
    """The model client, imported in a thread when first needed: importing openai costs more than the first paint.
    `suspect` hears of every fault that may be the server's; `totals` are the counters of one that says nothing of
    drafting in its replies."""

    def __init__(
        self,
        build: Callable[[], ModelClient],
        suspect: Callable[[str], None],
        totals: Callable[[], Awaitable[Totals | None]] | None = None,
    ) -> None:
        self._build = build
        self._suspect = suspect
        self._totals = totals
        self._client: asyncio.Task[ModelClient] | None = None

    async def ready(self) -> ModelClient:
        if self._client is None:
            self._client = asyncio.get_running_loop().create_task(asyncio.to_thread(self._build))
        return await asyncio.shield(self._client)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        stream = (await self.ready()).stream(request)
        before = await self._totals() if self._totals else None
        try:
            async for chunk in stream:
                if before is not None and isinstance(chunk, FinishChunk):
                    chunk = await self._with_drafts(chunk, before)
                yield chunk
        except (ServerUnavailable, Stalled, BadReply, Looping) as fault:
            self._suspect(str(fault))
            raise
        finally:
            await stream.aclose()

    async def read_ahead(self, request: ModelRequest) -> int | None:
        return await (await self.ready()).read_ahead(request)

    async def count(self, request: ModelRequest) -> int | None:
        """Tokens of the request as the server counts them; None where it cannot say."""
        return await (await self.ready()).count(request)

    async def _with_drafts(self, end: FinishChunk, before: Totals) -> FinishChunk:
        after = await self._totals() if self._totals else None
        found = drafts_between(before, after, end.usage.generated_tokens or 0) if after else None
        if found is None or end.timings.draft_n is not None:
            return end
        drafted, accepted = found
        timings = replace(
            end.timings,
            draft_n=drafted,
            draft_n_accepted=accepted,
            predicted_n=end.timings.predicted_n or end.usage.generated_tokens,
        )
        return replace(end, timings=timings)
