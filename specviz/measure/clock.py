"""The clock: contestants timed side by side in one process, so that whatever else the machine does meets all of them alike.

A *run* has every contestant work once, or once for each item of the run (a prompt, say). Who goes first moves on by one from item to
item and from run to run. The first runs warm caches up and are not counted. What is compared is a ratio taken run by run: a machine
that is slower for a whole run takes nothing from it. How far the runs of one contestant lie apart says what another program took, and
whether the medians are a verdict at all. No torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import Any, Generic, TypeVar

from specviz.measure.estimate import LEAST, Estimate

UNSTEADY = 0.25  # widest middle half of a contestant's runs, as a share of their median, under which its median is a verdict
WIDEST = 0.4  # share of itself that the interval of a compared number may span; a quiet machine keeps six runs within 0.2

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True)
class Lap:
    """One contestant's work on one item of one run, and what it tells of it.

    run   1, 2, .. of the runs that count; 0 and below for those that warm up
    item  of the run, None where runs have none
    """

    run: int
    item: Any = None
    kept: list[Any] = field(default_factory=list)
    splits: dict[str, float] = field(default_factory=dict)
    left_out: float = 0.0
    _last: float = 0.0

    def keep(self, value: Any) -> None:
        """Something that ``Clock.kept`` gives back, where the run counts."""
        self.kept.append(value)

    def split(self, name: str) -> None:
        """The seconds since the last split, or since the lap began, under a name."""
        here = time.perf_counter()
        self.splits[name] = self.splits.get(name, 0.0) + here - self._last
        self._last = here

    def leave_out(self, seconds: float) -> None:
        """Seconds of this lap that are not the contestant's."""
        self.left_out += seconds


Contestant = Callable[[Lap], object]


def nothing() -> None:
    """The work of a hook that nobody asked for."""


class Clock(Generic[Key]):
    """Runs of contestants by name, interleaved.

    warm    runs at the beginning that are not counted
    items   run -> what every contestant works on in it, one after the other
    settle  waits for a device that works on its own; called at both ends of every lap
    """

    def __init__(
        self,
        contestants: Mapping[Key, Contestant],
        warm: int = 1,
        items: Callable[[int], Sequence[Any]] = lambda run: (None,),
        settle: Callable[[], None] = nothing,
    ):
        self.contestants, self.items, self.settle = dict(contestants), items, settle
        self._names = list(self.contestants)
        self._run = -warm  # the last one that was made
        self._seconds: dict[Key, list[float]] = {key: [] for key in self._names}
        self._splits: dict[Key, list[dict[str, float]]] = {key: [] for key in self._names}
        self._kept: dict[Key, list[Any]] = {key: [] for key in self._names}

    @property
    def runs(self) -> int:
        """Runs that counted so far."""
        return max(0, self._run)

    def until(
        self,
        runs: int,
        watch: Callable[[float, int, Key], None] = lambda share, run, key: None,
        between: Callable[[float, int, Any], None] = lambda share, run, item: None,
    ) -> Clock[Key]:
        """Go on until so many runs counted.

        watch    told before each lap (share of the work that is done, run, contestant); what it raises ends the work
        between  called after each item of each run (share, run, item); what it does is not timed
        """
        first = self._run
        while self._run < runs:
            self._one_run(lambda inside: (self._run - first - 1 + inside) / (runs - first), watch, between)
        return self

    def _one_run(self, share: Callable[[float], float], watch: Callable, between: Callable) -> None:
        self._run += 1
        items, count = self.items(self._run), len(self._names)
        seconds, splits = dict.fromkeys(self._names, 0.0), {key: {} for key in self._names}
        for number, item in enumerate(items):
            begin = (self._run + number) % count
            for place, key in enumerate((*self._names[begin:], *self._names[:begin])):
                watch(share((number + place / count) / len(items)), self._run, key)
                lap = self._lap(key, item)
                seconds[key] += lap[1]
                for name, spent in lap[0].splits.items():
                    splits[key][name] = splits[key].get(name, 0.0) + spent
                if self._run > 0:
                    self._kept[key] += lap[0].kept
            between(share((number + 1) / len(items)), self._run, item)
        for key in self._names if self._run > 0 else ():
            self._seconds[key].append(seconds[key])
            self._splits[key].append(splits[key])

    def _lap(self, key: Key, item: Any) -> tuple[Lap, float]:
        self.settle()
        lap = Lap(self._run, item)
        began = lap._last = time.perf_counter()
        self.contestants[key](lap)
        self.settle()
        return lap, time.perf_counter() - began - lap.left_out

    def seconds(self, key: Key) -> tuple[float, ...]:
        """Of each run that counted."""
        return tuple(self._seconds[key])

    def splits(self, key: Key, name: str) -> tuple[float, ...]:
        """Seconds of a part, of each run that counted."""
        return tuple(one[name] for one in self._splits[key])

    def kept(self, key: Key) -> list[Any]:
        """What a contestant kept in the runs that counted, in their order."""
        return self._kept[key]

    def median(self, key: Key, pieces: float = 1.0) -> Estimate:
        """Seconds for each of so many pieces of work that a run has."""
        return Estimate.of_runs([spent / pieces for spent in self._seconds[key]], "s")

    def rate(self, key: Key, amount: float, unit: str) -> Estimate:
        """Of something that a run makes so much of, a second."""
        return Estimate.of_runs([amount / spent for spent in self._seconds[key]], unit)

    def ratio(self, slow: Key, fast: Key) -> Estimate:
        """How many times as fast the second is as the first, run by run."""
        return ratio(self._seconds[slow], self._seconds[fast])


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Estimate:
    """Seconds over seconds of the same runs: above 1, ``fast`` is the faster."""
    return Estimate.of_runs([a / b for a, b in zip(slow, fast, strict=True)], "times")


def taking_turns(streams: Mapping[Key, Iterator[T]]) -> Iterator[tuple[Key, T, float]]:
    """The steps of streams of work as they end: whichever has worked for less time makes its next step.

    So all share whatever else the machine does, and at every moment all have had the same time, to a step.
    returns  name, what the step made, and the seconds that this stream has worked on all its steps so far
    """
    streams, spent = dict(streams), dict.fromkeys(streams, 0.0)
    while streams:
        key = min(streams, key=spent.get)
        began = time.perf_counter()
        try:
            made = next(streams[key])
        except StopIteration:
            del streams[key]
            continue
        spent[key] += time.perf_counter() - began
        yield key, made, spent[key]


def middle_half(values: Sequence[float]) -> float:
    """The width of the middle half of the runs of one contestant, as a share of their median."""
    ordered = sorted(values)
    count = len(ordered)
    return (ordered[3 * count // 4] - ordered[count // 4]) / ordered[count // 2]


def spread(contestants: Sequence[Sequence[float]]) -> float:
    """The widest middle half of any contestant (contestants, runs), each run beside the others of the same run.

    Speed-ups are ratios: a machine that is slower for a whole run takes nothing from them, and so it takes nothing here.
    """
    beside = [[seconds / geometric_mean(run) for seconds in run] for run in zip(*contestants, strict=True)]
    return max(middle_half(column) for column in zip(*beside, strict=True))


def busy(found: float, what: str) -> str:
    """A sentence where a spread is too wide for a verdict, else nothing. what: whose runs, such as "one probe’s runs"."""
    if found <= UNSTEADY:
        return ""
    return (
        f"the middle half of {what} spans {found:.0%} of their median; at most {UNSTEADY:.0%} is allowed. "
        "Another program may keep this machine busy: run it again alone."
    )


def unsure(found: Estimate, what: str) -> str:
    """A sentence where the runs of a compared number are too few or lie too far apart for a verdict, else nothing."""
    if found.n < LEAST:
        return f"{what} was measured in {found.n} runs; fewer than {LEAST} give no 95% interval of a median."
    if found.width <= WIDEST:
        return ""
    return (
        f"the 95% interval of {what} spans {found.width:.0%} of it; at most {WIDEST:.0%} is allowed. "
        "Another program may keep this machine busy: run it again alone, or with more --runs."
    )
