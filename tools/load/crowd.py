"""How long visitors wait when they are many: ``python -m tools.load.crowd --out crowd.md``.

Starts the app in hosted mode on this machine, on the shipped pair, and lets visitors come who speak the page's protocol: some work,
with 0 to 3 s between their actions, while one of them draws a million samples; many only look; and one takes live rounds alone while
foreign processes want every core. It prints medians and 95th percentiles, processor time by page and memory by session.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from tools.load import findings
from tools.load.client import ClientTimeoutError
from tools.load.findings import WaitingTimes
from tools.load.server import LoadServer, keep_cores_busy, start_server
from tools.load.visits import FILLED, FIRST, LIVE, SHORT, Visitor, build_link

PAGES = ("", "one_round", "one_token", *FILLED)
MILLION = "a million samples"
LONE_ROUNDS = 12  # live rounds of one visitor, quiet and beside foreign processes
MAX_SLOWDOWN = 3.0  # times its quiet time that a live round may take beside foreign processes; longer is a collapse
PAGE_LOADS = 5  # times that each page is opened to see what it costs


async def run_worker(guest: Visitor, address: str) -> None:
    """Live rounds, every page, and a short job."""
    async with guest.open_tab(address):
        await guest.pause()
        await guest.enter()
        await guest.pause()
        await guest.run_live()
        for action in (guest.request_round, guest.request_round, guest.change_settings):
            await guest.pause()
            await action()
        for page in guest.luck.sample(list(FILLED), len(FILLED)):
            await guest.pause()
            await guest.use_page(page)
        await guest.pause()
        await guest.sample(10_000, "10,000 samples", SHORT)


async def draw_a_million(guest: Visitor, address: str) -> None:
    """Until it is canceled, or there are all, or a client's patience is over: this visitor is there to be a load."""
    async with guest.open_tab(address):
        await guest.enter()
        with suppress(ClientTimeoutError):
            await guest.sample(1_000_000, "1,000,000 samples", MILLION)


async def run_reader(guest: Visitor, address: str, reading: float) -> None:
    """Recorded pages, one after the other. reading: the longest time at one, in seconds."""
    async with guest.open_tab(address):
        await guest.pause(reading)
        await guest.enter()
        for page in guest.luck.sample(PAGES, len(PAGES)):
            await guest.pause(reading)
            with guest.time_action("recorded page"):
                await guest.open_page(page)


async def time_lone_rounds(guest: Visitor, address: str) -> list[float]:
    """Live rounds of one visitor, each of another seed, one after the other."""
    async with guest.open_tab(address):
        await guest.enter()
        await guest.run_live()
        for _ in range(LONE_ROUNDS):
            await guest.change_settings()
    return guest.seconds["other settings"]


async def run_together(visits: Sequence[Coroutine[None, None, None]]) -> list[str]:
    """Everybody at once; a sentence for each who met trouble."""
    ends = await asyncio.gather(*visits, return_exceptions=True)
    return [f"{type(end).__name__}: {end}"[:900] for end in ends if isinstance(end, BaseException)]


async def run_workers(server: LoadServer, visitors: int) -> tuple[list[Visitor], list[str]]:
    """Visitors who work, and one more who draws a million meanwhile."""
    guests = [Visitor(number) for number in range(visitors)]
    million = asyncio.create_task(draw_a_million(Visitor(visitors, build_link(random.Random(visitors))), server.address))
    lost = await run_together([run_worker(guest, server.address) for guest in guests])
    million.cancel()
    await asyncio.wait([million])
    if not million.cancelled() and million.exception():
        lost.append(f"while a million was drawn: {million.exception()}"[:300])
    return guests, lost


async def measure_costs(server: LoadServer) -> list[tuple[str, str, str]]:
    """Processor time of the server and kB through the socket for each page, opened again and again by one visitor."""
    guest, found = Visitor(), []
    async with guest.open_tab(server.address):
        await guest.enter()
        for page in PAGES:
            await guest.open_page(page)
            before, sent = server.read_cpu_seconds(), guest.bytes
            for _ in range(PAGE_LOADS):
                await guest.open_page(page)
            cpu, sent = (server.read_cpu_seconds() - before) / PAGE_LOADS, (guest.bytes - sent) / PAGE_LOADS
            found.append((page or "front", f"{cpu:.3f} s", f"{sent / 1000:.0f} kB"))
    return found


async def measure_session_memory(server: LoadServer, visitors: int) -> float:
    """MB for each session that is open and has drawn One round, by RSS."""
    before = server.read_memory().rss
    async with AsyncExitStack() as stack:
        for number in range(visitors):
            guest = Visitor(number)
            await stack.enter_async_context(guest.open_tab(server.address))
            await guest.enter()
        return (server.read_memory().rss - before) / visitors


def collect_times(guests: Sequence[Visitor]) -> dict[str, list[float]]:
    """Seconds by kind of action, of everybody."""
    found: dict[str, list[float]] = defaultdict(list)
    for guest in guests:
        for what, took in guest.seconds.items():
            found[what] += took
    return found


async def measure_crowd(server: LoadServer, visitors: int, lookers: int, reading: float) -> tuple[str, bool]:
    """All parts after each other, as markdown, and whether everybody got what they asked for and foreign load made nothing collapse."""
    await time_lone_rounds(Visitor(), server.address)  # the models are loaded, the pages have been met
    await asyncio.to_thread(server.wait_for_workers)
    quiet = await time_lone_rounds(Visitor(1), server.address)
    with keep_cores_busy():
        crowded = await time_lone_rounds(Visitor(2), server.address)
    cpu = await measure_costs(server)
    session = await measure_session_memory(server, visitors)
    guests, lost = await run_workers(server, visitors)
    watchers = [Visitor(number) for number in range(lookers)]
    lost += await run_together([run_reader(guest, server.address, reading) for guest in watchers])
    head = ("action", "seen", "median", "p95")
    work, seen = collect_times(guests), collect_times(watchers)
    order = [FIRST, LIVE, "next round", "other settings", SHORT]
    rows = [WaitingTimes.from_seconds(what, work[what]).format_row() for what in [*order, *sorted(set(work) - set(order))]]
    ratio = statistics.median(crowded) / statistics.median(quiet)
    exceptions, tracebacks = sum(one.exceptions for one in [*guests, *watchers]), server.count_tracebacks()
    foreign = [
        WaitingTimes.from_seconds("live round, quiet", quiet).format_row(),
        WaitingTimes.from_seconds("live round, every core busy", crowded).format_row(),
    ]
    parts = [
        f"**{visitors} visitors who work**, 0 to 3 s between actions, while one more draws a million samples:\n",
        findings.format_table(head, rows),
        f"\n**{lookers} visitors who look** at recorded pages, 0 to {reading:g} s at each:\n",
        findings.format_table(
            head, [WaitingTimes.from_seconds(what, seen[what]).format_row() for what in (FIRST, "recorded page")]
        ),
        f"\n**One visitor beside a foreign process on every core**: {ratio:.1f} times the quiet time at the median.\n",
        findings.format_table(head, foreign),
        "\n**Processor time of the server** for one run of a page's script, and what it sends to a browser that was there before:\n",
        findings.format_table(("page", "CPU", "sent"), cpu),
        f"\nMemory: {session:.2f} MB a session; {server.read_memory().rss:.0f} MB RSS at the end.",
        f"Exceptions on pages: {exceptions}; tracebacks in the log: {tracebacks}; visitors who lost their work: {len(lost)}.",
        *(f"- {one}" for one in lost),
    ]
    return "\n".join(parts), ratio <= MAX_SLOWDOWN and not (lost or exceptions or tracebacks)


LIMITS = {
    "visitors": (50, 200, "visitors who work"),
    "lookers": (200, 500, "visitors who only look"),
    "reading": (3, 300, "longest time at a recorded page in s"),
    "minutes": (30, 120, "minutes after which it ends in any case"),
}


def main(words: list[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def measure(options: argparse.Namespace, machine: str) -> tuple[str, bool]:
        with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "log.txt", options.host) as server:
            work = measure_crowd(server, options.visitors, options.lookers, options.reading)
            report, held = findings.run_bounded(work, options.minutes)
        return f"{machine}\n\n{report}", held

    return findings.run_tool("crowd", __doc__, LIMITS, measure, words, findings.add_host_option)


if __name__ == "__main__":
    sys.exit(main())
