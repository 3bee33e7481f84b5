"""Takes events from a session and shows them at a pace the screen can bear. The producer never waits for a widget:
folding is immediate; what streams is drawn at most every tenth of a second, less often when drawing is slow."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from agent.events import CallDelta, Event, TextDelta, ThinkingDelta, ToolProgress

FLUSH = 0.1  # seconds; half of it doubles the CPU cost of a stream
SHARE = 4  # a drawing of n seconds is followed by a pause of at least 4 n
FLOWING = (TextDelta, ThinkingDelta, CallDelta, ToolProgress)  # what comes by the hundred and may wait for FLUSH
BREATH = 200  # events folded in one go before keys get their turn


class Pump:
    """`fold` takes each event at once, `show` draws what has changed, `fail` hears of a bug in either."""

    def __init__(
        self, fold: Callable[[Event], None], show: Callable[[], None], fail: Callable[[Exception], None]
    ) -> None:
        self._fold = fold
        self._show = show
        self._fail = fail
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()  # something ended: it is shown without waiting for FLUSH

    async def run(self, events: AsyncIterator[Event]) -> None:
        drawing = asyncio.get_running_loop().create_task(self._draw(), name="draw")
        drawing.add_done_callback(self._drawn)
        try:
            count = 0
            async for event in events:
                self._fold(event)
                self._changed.set()
                if not isinstance(event, FLOWING):
                    self._settled.set()
                count += 1
                if count % BREATH == 0:
                    await asyncio.sleep(0)
            self._show()
        except Exception as error:
            self._fail(error)
        finally:
            drawing.cancel()

    def _drawn(self, drawing: asyncio.Task[None]) -> None:
        if not drawing.cancelled() and isinstance(error := drawing.exception(), Exception):
            self._fail(error)

    async def _draw(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._settled.clear()
            started = time.monotonic()
            self._show()
            pause = max(FLUSH, SHARE * (time.monotonic() - started))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), pause)
