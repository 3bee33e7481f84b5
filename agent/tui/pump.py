"""Between the session's events and the screen: folds at once, draws when the screen has time. The producer never waits
for a widget."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from agent.core.bus import Subscription
from agent.events import Event

FLUSH = 0.1  # seconds between drawings while events stream: the eye does not read faster
PATIENCE = 4  # times the last drawing's own cost, when that is more

log = logging.getLogger(__name__)


async def pump(subscription: Subscription, fold: Callable[[Event], None], draw: Callable[[], None]) -> None:
    """Ends when the subscription does. A bug in drawing is logged and shown by nothing: the conversation goes on."""
    woken = asyncio.Event()
    over = False

    async def read() -> None:
        nonlocal over
        async for event in subscription:
            fold(event)
            woken.set()
        over = True
        woken.set()

    reader = asyncio.get_running_loop().create_task(read())
    try:
        while not over:
            await woken.wait()
            woken.clear()
            started = time.monotonic()
            try:
                draw()
            except Exception:
                log.exception("drawing the transcript")
            await asyncio.sleep(max(FLUSH, PATIENCE * (time.monotonic() - started)))
        await reader
    finally:
        reader.cancel()
