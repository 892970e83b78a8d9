"""Visitors who step through live rounds, as many as wanted, without a browser, and visitors who open a page at the same moment.

They open One round, then choose one seed after the other in the fold, each of which runs the real pair, with 0 to 3 s between clicks.
The measured time is that from a click until its run is on the page.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tools.load.client import StreamlitClient

PAUSE = 3.0  # s, the longest between two clicks


@dataclass
class Visitor(StreamlitClient):
    """A client with a watch. seconds: of each click until its run was there."""

    seconds: list[float] = field(default_factory=list)

    async def visit(self, address: str, rounds: int) -> Visitor:
        luck = random.Random(self.number)
        await asyncio.sleep(luck.uniform(0, PAUSE))
        async with self.open_tab(address):
            await self.run()
            await self.run_until(lambda: "fold-seed-0" in self.widgets and self.shown)
            for _ in range(rounds):
                await asyncio.sleep(luck.uniform(0, PAUSE))
                seed = str(luck.randrange(10**6, 10**7))
                began = time.monotonic()
                self.put("fold-seed-0", seed)
                await self.run()
                await self.run_until(
                    lambda seed=seed: (
                        f"seed {seed}" in self.shown and '"mode":"live"' in self.shown and '"busy":null' in self.shown
                    )
                )
                self.seconds.append(time.monotonic() - began)
        return self

    async def open(self, address: str, together: asyncio.Barrier, there: Callable[[Visitor], bool]) -> Visitor:
        """Open the page at the same moment as others, and wait until what is waited for is there."""
        async with self.open_tab(address):
            await together.wait()
            await self.run()
            await self.run_until(lambda: there(self))
        return self


async def crowd(address: str, visitors: int, rounds: int = 3) -> list[Visitor]:
    """Everybody, together. Raises TimeoutError where somebody waits for longer than a client does."""
    return list(await asyncio.gather(*(Visitor(number).visit(address, rounds) for number in range(visitors))))


async def open_at_once(visitors: Sequence[Visitor], address: str, there: Callable[[Visitor], bool]) -> list[Visitor]:
    """Everybody opens their page at the same moment. Raises TimeoutError as crowd does."""
    together = asyncio.Barrier(len(visitors))
    return list(await asyncio.gather(*(one.open(address, together, there) for one in visitors)))


def describe_crowd(everybody: list[Visitor], seconds: float) -> str:
    first, later = [one.seconds[0] for one in everybody], [took for one in everybody for took in one.seconds[1:]]
    runs, clicks = sum(one.runs for one in everybody), sum(len(one.seconds) for one in everybody)
    return (
        f"{len(everybody)} visitors in {seconds:.0f} s: first live round {statistics.median(first):.2f} s at the median (at most {max(first):.1f}), "
        f"later ones {statistics.median(later):.2f} s (at most {max(later):.1f}); {runs / clicks:.1f} runs of script or fragment a click, "
        f"{sum(one.exceptions for one in everybody)} exceptions"
    )
