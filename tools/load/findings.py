"""What the load tools conclude from what they saw: medians and tails, growth of memory, traces that belong to somebody else."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from specviz.errors import SpecvizError

GROWTH = 0.10  # of memory, from which a soak fails
WARM = 300.0  # s after which memory is first read
Run = tuple[str, int]  # (link, rounds): what a trace follows from


@dataclass(frozen=True)
class Times:
    """How long something took: how often it was seen, and seconds. p95: 95 of 100 took at most so long."""

    what: str
    seen: int
    median: float
    p95: float

    @classmethod
    def of(cls, what: str, seconds: Sequence[float]) -> Times:
        if not seconds:
            return cls(what, 0, float("nan"), float("nan"))
        return cls(what, len(seconds), *(float(np.percentile(seconds, share, method="higher")) for share in (50, 95)))

    def row(self) -> tuple[str, ...]:
        return self.what, f"{self.seen:,}", *(f"{one:.2f} s" if self.seen else "not seen" for one in (self.median, self.p95))


@dataclass(frozen=True)
class Shown:
    """The run that a visitor's page showed: whose it was, what it must follow from, and the digest of its trace."""

    visitor: int
    link: str
    rounds: int
    digest: str


def growth(first: float, last: float) -> float:
    """By which part memory has grown; negative where it shrank."""
    if first <= 0:
        raise SpecvizError(f"memory must have been read before growth is computed, got {first:g} MB.")
    return last / first - 1


def after(seconds: float, samples: Sequence[tuple[float, float]]) -> float:
    """The first value that was read so many seconds after the start or later, else the last. samples: (seconds, value)."""
    return next((value for at, value in samples if at >= seconds), samples[-1][1])


def cross_talk(shown: Iterable[Shown], alone: Callable[[str, int], str]) -> list[str]:
    """A sentence for each page that showed another trace than its settings give when they run alone.

    alone  (link, rounds) -> digest of that run; asked once for each
    """
    shown, known, found = list(shown), {}, []
    for one in shown:
        known.setdefault((one.link, one.rounds), one.digest if False else alone(one.link, one.rounds))
    owners = {digest: run for run, digest in known.items()}
    for one in shown:
        if one.digest != known[one.link, one.rounds]:
            whose = owners.get(one.digest)
            of = f"the run of {whose[0]!r}, {whose[1]} rounds" if whose else "a run that nobody asked for"
            found.append(f"Visitor {one.visitor} asked for {one.link!r}, {one.rounds} rounds, and was shown {of}.")
    return found


def run_alone(link: str, rounds: int) -> str:
    """Digest of a link's run in this process."""
    from urllib.parse import parse_qsl

    from specviz.decoding.run import run
    from specviz.settings import Settings
    from specviz.web.common import cache

    settings, _ = Settings.from_query(dict(parse_qsl(link)))
    return run(cache.weights(settings.pair, settings.device, settings.dtype), settings, rounds).digest()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """Processor, cores, load and date, as a line above tables."""
    from specviz.measure.machine import machine as described

    found = described()
    load = ", ".join(f"{one:.1f}" for one in found["load"]) if isinstance(found.get("load"), list) else f"{found.get('load', 0):.1f}"
    return f"{found.get('processor', platform.machine())}, {found.get('cores', '?')} cores, load {load} at the start, {date.today().isoformat()}."


def write(text: str, out: Path | None) -> None:
    """On the screen, and into a file where one is named."""
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")


def listed(records: Iterable[object]) -> str:
    return json.dumps([vars(one) for one in records])
