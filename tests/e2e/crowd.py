"""Visitors who step through live rounds, as many as wanted, without a browser: ``python -m tests.e2e.crowd ADDRESS VISITORS [ROUNDS]``.

They speak the page's protocol: open One round, then choose one seed after the other in the fold, each of which runs the real pair,
with 0 to 3 s between clicks; and they run a fragment again when the page asks for it, as a browser does. What is reported is the time
from a click until its run is on the page: for the first one of each visitor, and for the later ones.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

PATIENT = 200.0  # s
PAUSE = 3.0  # s, the longest between two clicks


@dataclass
class Visitor:
    """What somebody asks for and meets.

    link, page  the address they open          seconds  of each click until its run was there
    exceptions  elements of that kind          runs     of the script and of fragments that ended
    modes       of the stages that were drawn  charts   drawn, each time
    lines       said while work waited
    """

    number: int
    link: str = ""
    page: str = ""
    seconds: list[float] = field(default_factory=list)
    exceptions: int = 0
    runs: int = 0
    modes: list[str] = field(default_factory=list)
    charts: int = 0
    lines: set[str] = field(default_factory=set)

    async def visit(self, address: str, rounds: int) -> Visitor:
        luck = random.Random(self.number)
        await asyncio.sleep(luck.uniform(0, PAUSE))
        async with self.connected(address):
            await self.run()
            await self.until(lambda: self.field and self.shown)
            for _ in range(rounds):
                await asyncio.sleep(luck.uniform(0, PAUSE))
                seed = str(luck.randrange(10**6, 10**7))
                began = time.monotonic()
                self.state[self.field] = seed
                await self.run()
                await self.until(
                    lambda seed=seed: (
                        f"seed {seed}" in self.shown and '"mode":"live"' in self.shown and '"busy":null' in self.shown
                    )
                )
                self.seconds.append(time.monotonic() - began)
        return self

    async def open(self, address: str, together: asyncio.Barrier, there: Callable[[Visitor], bool]) -> Visitor:
        """Open the page at the same moment as others, and wait until what is waited for is there."""
        async with self.connected(address):
            await together.wait()
            await self.run()
            await self.until(lambda: there(self))
        return self

    @asynccontextmanager
    async def connected(self, address: str, **options: Any) -> AsyncIterator[None]:
        stream = address.replace("http", "ws") + "/_stcore/stream"
        async with connect(
            stream,
            max_size=None,
            subprotocols=["streamlit"],
            ping_interval=None,
            compression=None,
            open_timeout=PATIENT,
            **options,
        ) as self.socket:
            self.field, self.state, self.shown, self.clocks, self.opened = "", {}, "", [], ""
            self.changed = asyncio.Event()
            self.reading = asyncio.create_task(self.read())
            try:
                yield
            finally:
                self.reading.cancel()
                self.stop_clocks()

    async def run(self, fragment: str = "") -> None:
        ask = BackMsg()
        ask.rerun_script.query_string, ask.rerun_script.page_name = self.link, "" if self.opened else self.page
        ask.rerun_script.page_script_hash = self.opened  # as a browser does: by name at first, then as the server called it
        ask.rerun_script.fragment_id, ask.rerun_script.is_auto_rerun = fragment, bool(fragment)
        for widget, value in self.state.items():
            state = ask.rerun_script.widget_states.widgets.add()
            state.id, state.string_value = widget, value
        await self.socket.send(ask.SerializeToString())

    async def until(self, condition) -> None:
        try:
            async with asyncio.timeout(PATIENT):
                while not condition():
                    if self.reading.done():
                        self.reading.result()
                        raise ConnectionError("the server closed the connection")
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            at = self.shown.find('"mode"')
            raise TimeoutError(f"visitor {self.number} waits for {self.state}; shown is {self.shown[at : at + 300]!r}") from None

    async def read(self) -> None:
        try:
            async for message in self.socket:
                self.note(ForwardMsg.FromString(message))
                self.changed.set()
        finally:
            self.changed.set()

    def note(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.runs += 1
            if not message.metadata.run.fragment_ids:
                self.stop_clocks()
        elif kind == "navigation":
            self.opened = message.navigation.page_script_hash
        elif kind == "script_finished":
            self.runs += 1
        elif kind == "auto_rerun":
            self.clocks.append(asyncio.create_task(self.again(message.auto_rerun.fragment_id, message.auto_rerun.interval)))
        elif kind == "delta":
            element = message.delta.new_element
            self.exceptions += element.HasField("exception")
            self.charts += element.HasField("plotly_chart")
            self.lines |= {element.progress.text} if element.HasField("progress") else set()
            if "fold-seed" in element.text_input.id:
                self.field = element.text_input.id
            if element.HasField("bidi_component"):
                self.shown = (element.bidi_component.mixed.json or element.bidi_component.json).replace('": ', '":')
                data = json.loads(self.shown)
                self.modes.append(data.get("mode"))
                self.lines |= {data.get("busy") or ""}

    async def again(self, fragment: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.shield(asyncio.create_task(self.run(fragment)))  # a message that was begun is sent whole

    def stop_clocks(self) -> None:
        for clock in self.clocks:
            clock.cancel()
        self.clocks = []


async def crowd(address: str, visitors: int, rounds: int = 3) -> list[Visitor]:
    """Everybody, together. Raises TimeoutError where somebody waits for more than PATIENT seconds."""
    return list(await asyncio.gather(*(Visitor(number).visit(address, rounds) for number in range(visitors))))


async def opened_at_once(visitors: Sequence[Visitor], address: str, there: Callable[[Visitor], bool]) -> list[Visitor]:
    """Everybody opens their page at the same moment. Raises TimeoutError as crowd does."""
    together = asyncio.Barrier(len(visitors))
    return list(await asyncio.gather(*(one.open(address, together, there) for one in visitors)))


def said(everybody: list[Visitor], seconds: float) -> str:
    first, later = [one.seconds[0] for one in everybody], [took for one in everybody for took in one.seconds[1:]]
    runs, clicks = sum(one.runs for one in everybody), sum(len(one.seconds) for one in everybody)
    return (
        f"{len(everybody)} visitors in {seconds:.0f} s: first live round {statistics.median(first):.2f} s at the median (at most {max(first):.1f}), "
        f"later ones {statistics.median(later):.2f} s (at most {max(later):.1f}); {runs / clicks:.1f} runs of script or fragment a click, "
        f"{sum(one.exceptions for one in everybody)} exceptions"
    )


if __name__ == "__main__":
    began = time.monotonic()
    found = asyncio.run(crowd(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 3))
    print(said(found, time.monotonic() - began))
