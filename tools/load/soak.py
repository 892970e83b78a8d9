"""Visitors come, work on every page, upload, export and leave, for as long as is asked: ``python -m tools.load.soak --minutes 30``.

At the end stand memory after the first five minutes (of a shorter run: after its first sixth) and at the end, exceptions, traces that
belonged to somebody else, and runs that were lost. The exit code is 1 where memory grew by more than a tenth (in ten minutes or more) or any of these was seen.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tools.load import findings
from tools.load.findings import MAX_GROWTH, ShownTrace, WaitingTimes, compute_growth, find_cross_talk
from tools.load.server import LoadServer, ServerMemory, start_server
from tools.load.visits import FILLED, Visitor, build_link

MEMORY_INTERVAL = 2.0  # s between two readings of memory
MIN_MINUTES = 10  # min from which on growth of memory counts: before, pages and models are still met for the first time
MAX_TRACES = 500  # traces that are computed again, at most: each takes a few tenths of a second


@dataclass
class SoakLog:
    """Observations: memory with its time, traces, lost visits with their reason, elements of exceptions, seconds by action."""

    memory: list[tuple[float, ServerMemory]] = field(default_factory=list)
    shown: list[ShownTrace] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    exceptions: int = 0
    visits: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, guest: Visitor) -> None:
        self.visits += 1
        self.shown += guest.traces
        self.exceptions += guest.exceptions
        for what, took in guest.seconds.items():
            self.seconds.setdefault(what, []).extend(took)


async def run_visitor(guest: Visitor, address: str, until: float) -> None:
    """One visit to every page. When the time is up, the visitor leaves at the next pause."""
    pages = list(FILLED)
    guest.luck.shuffle(pages)
    works = [guest.request_round, guest.change_settings, guest.export, lambda: guest.use_page("one_token"), guest.send_file]
    works += [lambda page=page: guest.use_page(page) for page in pages]
    async with guest.open_tab(address):
        await guest.enter()
        await guest.run_until(lambda: guest.has_live_run(rounds=1))
        guest.remember()
        for work in works:
            await guest.pause()
            if time.monotonic() > until:
                return
            await work()


async def keep_place_filled(number: int, address: str, until: float, log: SoakLog) -> None:
    """One visitor after the other."""
    luck, turn = random.Random(number), 0
    while time.monotonic() < until:
        guest = Visitor(number + 1000 * turn, build_link(luck))
        turn += 1
        try:
            await run_visitor(guest, address, until)
        except Exception as error:  # whatever ends a visit is a finding, and the next visitor comes
            log.lost.append(f"visitor {guest.number}: {type(error).__name__}: {error}"[:300])
        log.add(guest)


async def run_soak(server: LoadServer, visitors: int, minutes: float) -> SoakLog:
    """Everybody, while memory is read."""
    log, began = SoakLog(), time.monotonic()
    until = began + 60 * minutes
    places = [asyncio.create_task(keep_place_filled(number, server.address, until, log)) for number in range(visitors)]
    while any(not one.done() for one in places):
        log.memory.append((time.monotonic() - began, server.read_memory()))
        await asyncio.wait(places, timeout=MEMORY_INTERVAL)
    log.memory.append((time.monotonic() - began, server.read_memory()))
    for one in places:
        one.result()
    return log


def pick_traces(log: SoakLog) -> list[ShownTrace]:
    """The traces that are computed again, spread over the whole time."""
    return log.shown[:: max(1, -(-len(log.shown) // MAX_TRACES))]


def format_report(log: SoakLog, tracebacks: int, mixed: list[str], rounded: list[str], minutes: float) -> tuple[str, bool]:
    """Markdown, and whether everything held."""
    warm = min(findings.WARM_SECONDS, 10 * minutes)
    first = findings.read_after(warm, log.memory)
    last = log.memory[-1][1]
    grown = compute_growth(first.pss, last.pss)
    failures = []
    if minutes >= MIN_MINUTES and grown > MAX_GROWTH:
        failures.append(f"Memory grew by {grown:.1%}, which is more than {MAX_GROWTH:.0%}.")
    failures += [f"{log.exceptions} exceptions stood on pages."] if log.exceptions else []
    failures += [f"The server's log has {tracebacks} tracebacks."] if tracebacks else []
    failures += [*(f"A visit was lost: {one}" for one in log.lost), *mixed]
    rows = [
        ("visits", f"{log.visits:,}"),
        (f"memory after {warm:.0f} s", f"{first.rss:.0f} MB RSS, {first.pss:.0f} MB PSS"),
        ("memory at the end", f"{last.rss:.0f} MB RSS, {last.pss:.0f} MB PSS ({grown:+.1%})"),
        ("traces shown", f"{len(log.shown):,}"),
        ("traces checked, with other tokens, with other last digits", f"{len(pick_traces(log)):,}, {len(mixed)}, {len(rounded)}"),
        ("exceptions on pages, tracebacks in the log", f"{log.exceptions}, {tracebacks}"),
        ("lost visits", str(len(log.lost))),
    ]
    times = [WaitingTimes.from_seconds(what, took).format_row() for what, took in sorted(log.seconds.items())]
    parts = [findings.format_table(("what", "found"), rows), findings.format_table(("action", "seen", "median", "p95"), times)]
    parts += ["\n".join(f"- {one}" for one in failures) or "Everything held.", *(f"- {one}" for one in rounded)]
    return "\n\n".join(parts), not failures


LIMITS = {"minutes": (30, 240, "how long visitors come, in minutes"), "visitors": (50, 200, "how many at a time")}


def main(words: list[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def measure(options: argparse.Namespace, machine: str) -> tuple[str, bool]:
        with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "log.txt", options.host) as server:
            log = asyncio.run(run_soak(server, options.visitors, options.minutes))
            tracebacks = server.count_tracebacks()
        cross_talk = find_cross_talk(pick_traces(log), findings.run_link)
        report, held = format_report(log, tracebacks, *cross_talk, options.minutes)
        return f"{machine} {options.visitors} visitors for {options.minutes} min.\n\n{report}", held

    return findings.run_tool("soak", __doc__, LIMITS, measure, words, findings.add_host_option)


if __name__ == "__main__":
    sys.exit(main())
