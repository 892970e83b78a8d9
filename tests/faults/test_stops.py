"""A server that gets the signal to stop in the middle of work shows results that are nearly done, names the others, and ends with 0."""

from __future__ import annotations

import asyncio
import signal

import pytest

from specviz.web.hosting.shutdown import SENTENCE
from tests.faults.conftest import Witness

pytestmark = pytest.mark.slow
LONG, SHORT = 1_000_000, 10_000


def test_short_work_is_shown_and_long_work_is_told_before_the_server_ends_with_0(faulty):
    server = faulty("held", SPECVIZ_MODE="hosted", SPECVIZ_PLACES="2", SPECVIZ_SESSIONS_PER_VISITOR="0")

    async def asks(guest: Witness, count: int, both: asyncio.Barrier, reads: str) -> None:
        async with guest.open_tab(server.address):
            await guest.enter()
            await guest.open_page("exactness")
            await guest.run_until(lambda: guest.can_press(f"exactness-draw-{count}"))
            await guest.settle(lambda: guest.press(f"exactness-draw-{count}"))
            await guest.run_until(lambda: any("Sampling" in line for line in guest.lines))
            await both.wait()
            await guest.run_until(lambda: guest.reads(reads))
            if count == LONG:
                (server.folder / "go").touch()

    async def stopped() -> None:
        both = asyncio.Barrier(3)

        async def stop_server() -> None:
            await both.wait()
            server.process.send_signal(signal.SIGTERM)

        await asyncio.gather(
            stop_server(),
            asks(Witness(1), LONG, both, SENTENCE),
            asks(Witness(2), SHORT, both, f"{SHORT:,} samples can"),
        )

    asyncio.run(stopped())
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.written
