"""What the load tools conclude from what they saw: medians and tails, growth of memory, traces that belong to somebody else."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import numpy as np

from specviz.errors import SpecvizError
from specviz.settings import check_whole

T = TypeVar("T")
MAX_GROWTH = 0.10  # of memory, from which a soak fails
WARM_SECONDS = 300.0  # s after which memory is first read


@dataclass(frozen=True)
class WaitingTimes:
    """How long something took: how often it was seen, and seconds. p95: 95 of 100 took at most so long."""

    what: str
    seen: int
    median: float
    p95: float

    @classmethod
    def from_seconds(cls, what: str, seconds: Sequence[float]) -> WaitingTimes:
        if not seconds:
            return cls(what, 0, float("nan"), float("nan"))
        return cls(what, len(seconds), *(float(np.percentile(seconds, share, method="higher")) for share in (50, 95)))

    def format_row(self) -> tuple[str, ...]:
        return self.what, f"{self.seen:,}", *(f"{one:.2f} s" if self.seen else "not seen" for one in (self.median, self.p95))


@dataclass(frozen=True)
class ShownTrace:
    """The run that a visitor's page showed: whose it was, what it must follow from, and what it was."""

    visitor: int
    link: str
    rounds: int
    run: TraceContent


@dataclass(frozen=True)
class TraceContent:
    """digest: of the trace, with every digit; story: its tokens and steps alone."""

    digest: str
    story: str

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> TraceContent:
        """The run that a stage's payload shows."""
        rounds = [
            [
                one["text"],
                [chip["name"] for chip in one["chips"]],
                (one["ending"] or {}).get("name"),
                [step["kind"] for step in one["steps"]],
            ]
            for one in payload["rounds"]
        ]
        return cls(payload["id"], json.dumps(rounds))


def compute_growth(first: float, last: float) -> float:
    """By which part memory has grown; negative where it shrank."""
    if first <= 0:
        raise SpecvizError(f"memory must have been read before growth is computed, got {first:g} MB.")
    return last / first - 1


def read_after(seconds: float, samples: Sequence[tuple[float, float]]) -> float:
    """The first value that was read so many seconds after the start or later, else the last. samples: (seconds, value)."""
    return next((value for at, value in samples if at >= seconds), samples[-1][1])


def find_cross_talk(shown: Iterable[ShownTrace], alone: Callable[[str, int], TraceContent]) -> tuple[list[str], list[str]]:
    """A sentence for each page that showed other tokens or steps than its settings give when they run alone.

    And one for each that showed the same of them, with a probability that differs in its last digits.

    alone: (link, rounds) -> that run; asked once for each.
    """
    shown, found, rounded = list(shown), [], []
    known = {run: alone(*run) for run in {(one.link, one.rounds) for one in shown}}
    owners = {run.digest: asked for asked, run in known.items()}
    for one in shown:
        wanted = known[one.link, one.rounds]
        if one.run.story == wanted.story:
            if one.run.digest != wanted.digest:
                rounded.append(
                    f"Visitor {one.visitor} asked for {one.link!r}, {one.rounds} rounds: the same run up to last digits."
                )
        else:
            whose = owners.get(one.run.digest)
            of = f"the run of {whose[0]!r}, {whose[1]} rounds" if whose else "a run that nobody asked for"
            found.append(f"Visitor {one.visitor} asked for {one.link!r}, {one.rounds} rounds, and was shown {of}.")
    return found, rounded


def run_link(link: str, rounds: int) -> TraceContent:
    """A link's run in this process, decoded as a page does it: the first rounds at once, then one at a time.

    Decoded in other pieces, or by another number of threads, the tokens are the same, but a probability can differ in its seventh digit.
    """
    from specviz.decoding.run import record_run
    from specviz.settings import Settings
    from specviz.threads import limit_threads
    from specviz.web.hosting import cache
    from specviz.web.hosting.server_queue import count_threads_per_job
    from specviz.web.one_round.payload import build_round_payload
    from specviz.web.one_round.state import AHEAD

    limit_threads(count_threads_per_job())
    settings, _ = Settings.from_query(dict(parse_qsl(link)))
    pair = cache.load_weights(settings.pair, settings.device, settings.dtype)
    trace = record_run(pair, settings, min(rounds, AHEAD))
    for count in range(AHEAD + 1, rounds + 1):
        trace = record_run(pair, settings, count, trace.rounds)
    return TraceContent.from_payload(build_round_payload(trace))


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def describe_machine() -> str:
    """Processor, cores, load and date, as a line above tables."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{processor}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, {date.today().isoformat()}."


def write_report(text: str, out: Path | None) -> None:
    """On the screen, and into a file where one is named."""
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")


def run_tool(
    name: str,
    description: str,
    limits: Mapping[str, tuple[int, int, str]],
    measure: Callable[[argparse.Namespace, str], tuple[str, bool]],
    words: Sequence[str] | None,
    more: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> int:
    """Run a load tool: read its options, measure, and write the report. Returns the exit code.

    Args:
        name: Of the tool.
        description: Docstring of the tool, whose first line is shown.
        limits: Name of each number -> default, largest value (the least is 1), and help.
        measure: Options and a line on the machine -> the report as Markdown, and whether everything held.
        words: The command line; None: of this process.
        more: Adds other options.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, prog=name, description=description.splitlines()[0])
    for option, (default, most, help) in limits.items():
        parser.add_argument(f"--{option}", type=int, default=default, help=f"{help}, 1 to {most} (default: {default})")
    more(parser)
    parser.add_argument("--out", type=Path, help="file for the report, as Markdown")
    options = parser.parse_args(words)
    try:
        for option, (_, most, _) in limits.items():
            check_whole(option, getattr(options, option), 1, most)
        report, held = measure(options, describe_machine())
    except TimeoutError:
        print(f"The {name} was not done after {options.minutes} min; nothing was written.", file=sys.stderr)
        return 1
    except SpecvizError as error:
        print(error, file=sys.stderr)
        return 2
    write_report(report, options.out)
    return 0 if held else 1


def add_host_option(parser: argparse.ArgumentParser) -> None:
    """The address of the server, for ``run_tool``."""
    parser.add_argument("--host", default="127.0.0.1", help="address of this machine to serve at (default: 127.0.0.1)")


def run_bounded(work: Coroutine[Any, Any, T], minutes: float) -> T:
    """Run a coroutine to its end. Raises TimeoutError after so many minutes."""

    async def wait() -> T:
        return await asyncio.wait_for(work, 60 * minutes)

    return asyncio.run(wait())
