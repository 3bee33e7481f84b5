"""Takes events from a session and shows them at a pace the screen can bear. The producer never waits for a widget:
folding is immediate, drawing happens at most every tenth of a second, less often when drawing is slow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from agent.events import Event

FLUSH = 0.1  # seconds; half of it doubles the CPU cost of a stream
SHARE = 4  # a drawing of n seconds is followed by a pause of at least 4 n
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

    async def run(self, events: AsyncIterator[Event]) -> None:
        drawing = asyncio.get_running_loop().create_task(self._draw(), name="draw")
        drawing.add_done_callback(self._drawn)
        try:
            count = 0
            async for event in events:
                self._fold(event)
                self._changed.set()
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
            started = time.monotonic()
            self._show()
            await asyncio.sleep(max(FLUSH, SHARE * (time.monotonic() - started)))
