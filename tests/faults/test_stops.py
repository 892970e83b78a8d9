"""A server that is told to stop in the middle of work: what is nearly done is shown, what is not is told, and it ends with 0."""

from __future__ import annotations

import asyncio
import signal

import pytest

from specviz.web.hosting.drain import SENTENCE
from tests.faults.conftest import Faulty, Witness

pytestmark = pytest.mark.slow


def test_short_work_is_shown_and_long_work_is_told_before_the_server_ends_with_0(faulty):
    server = faulty(SPECVIZ_MODE="hosted", SPECVIZ_SAMPLES_PER_MINUTE="0", SPECVIZ_SESSIONS_PER_VISITOR="0")

    async def long(guest: Witness, begun: asyncio.Event) -> None:
        async with guest.connected(server.address):
            await guest.enter()
            await guest.sample(1_000_000, "Stop", "a million") if False else None
            await guest.turn_to("exactness")
            await guest.until(lambda: guest.can_press("exactness-draw-1000000"))
            await guest.settle(lambda: guest.press("exactness-draw-1000000"))
            await guest.until(lambda: any("Sampling" in line for line in guest.lines))
            begun.set()
            await guest.until(lambda: guest.reads(SENTENCE))

    async def short(guest: Witness, begun: asyncio.Event) -> None:
        async with guest.connected(server.address):
            await guest.enter()
            await guest.turn_to("exactness")
            await guest.settle(lambda: guest.put("exactness-prompt-0", "The old man"))
            await guest.until(lambda: guest.can_press("exactness-draw-1000"))
            await begun.wait()
            before = server.metric("specviz_work_total")
            guest.press("exactness-draw-1000")
            await guest.run()
            await guest.until(lambda: any("Sampling" in line or "Waiting" in line for line in guest.lines))
            server.process.send_signal(signal.SIGTERM)
            await guest.until(lambda: guest.reads("1,000 samples"))

    async def both() -> None:
        begun = asyncio.Event()
        await asyncio.gather(long(Witness(1), begun), short(Witness(2), begun))

    asyncio.run(both())
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.written
