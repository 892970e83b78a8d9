"""The clock: contestants timed side by side in one process, so that other work of the machine affects all of them alike.

In a *run* every contestant works once, or once for each item of the run, such as a prompt. Who goes first moves on by one from item to
item and from run to run. The first runs warm up caches and are not counted. Ratios are taken run by run, so a machine that is slower
for a whole run changes none. No torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from specviz.speed.records.estimate import Estimate

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True)
class Lap:
    """One contestant's work in one run, and what it reports about it.

    Attributes:
        run: 1, 2, .. of the runs that count; 0 and below for those that warm up.
        item: Of the run that is being worked on, None where runs have none.
        seconds: Of all its items so far.
    """

    run: int
    item: Any = None
    seconds: float = 0.0
    kept: list[Any] = field(default_factory=list)
    splits: dict[str, float] = field(default_factory=dict)
    _last: float = 0.0

    def keep(self, value: Any) -> None:
        """Something that ``Clock.get_kept`` returns, if the run counts."""
        self.kept.append(value)

    def split(self, name: str) -> None:
        """The seconds since the last split, or since the item began, under a name."""
        here = time.perf_counter()
        self.splits[name] = self.splits.get(name, 0.0) + here - self._last
        self._last = here

    def exclude(self, seconds: float) -> None:
        """Seconds that are not the contestant's."""
        self.seconds -= seconds


Contestant = Callable[[Lap], object]
ItemCallback = Callable[[float, int, Any], None]  # an event of an item: share done, run, and the contestant or the item


def do_nothing() -> None:
    """The default of a hook."""


class Clock(Generic[Key]):
    """Runs of contestants by name, interleaved.

    Args:
        warm_runs: Runs at the beginning that are not counted.
        items: Run -> what every contestant works on in it, one after the other.
        synchronize: Waits for a device that works on its own; called before and after the work on each item.
    """

    def __init__(
        self,
        contestants: Mapping[Key, Contestant],
        warm_runs: int = 1,
        items: Callable[[int], Sequence[Any]] = lambda run: (None,),
        synchronize: Callable[[], None] = do_nothing,
    ):
        self.contestants, self.items, self.synchronize = dict(contestants), items, synchronize
        self._names = list(self.contestants)
        self._run = -warm_runs  # the last one that was made
        self._laps: dict[Key, list[Lap]] = {key: [] for key in self._names}

    @property
    def runs(self) -> int:
        """Runs that counted so far."""
        return max(0, self._run)

    def run_until(
        self,
        runs: int,
        on_item: ItemCallback = lambda share, run, key: None,
        between: ItemCallback = lambda share, run, item: None,
    ) -> Clock[Key]:
        """Go on until so many runs counted.

        on_item: called before each item of each contestant (share done, run, contestant); what it raises ends the work; between:
        called after each item of each run (share done, run, item); not timed.
        """
        first = self._run
        while self._run < runs:
            self._run_once(lambda inside: (self._run - first - 1 + inside) / (runs - first), on_item, between)
        return self

    def _run_once(self, share: Callable[[float], float], on_item: ItemCallback, between: ItemCallback) -> None:
        self._run += 1
        items, count, laps = self.items(self._run), len(self._names), {key: Lap(self._run) for key in self._names}
        for number, item in enumerate(items):
            begin = (self._run + number) % count
            for place, key in enumerate((*self._names[begin:], *self._names[:begin])):
                on_item(share((number + place / count) / len(items)), self._run, key)
                laps[key].item = item
                self._time(key, laps[key])
            between(share((number + 1) / len(items)), self._run, item)
        for key in self._names if self._run > 0 else ():
            self._laps[key].append(laps[key])

    def _time(self, key: Key, lap: Lap) -> None:
        self.synchronize()
        began = lap._last = time.perf_counter()
        self.contestants[key](lap)
        self.synchronize()
        lap.seconds += time.perf_counter() - began

    def get_seconds(self, key: Key) -> tuple[float, ...]:
        """Of each run that counted."""
        return tuple(lap.seconds for lap in self._laps[key])

    def get_splits(self, key: Key, name: str) -> tuple[float, ...]:
        """Seconds of a part, of each run that counted."""
        return tuple(lap.splits[name] for lap in self._laps[key])

    def get_kept(self, key: Key) -> list[Any]:
        """What a contestant kept in the runs that counted, in order."""
        return [value for lap in self._laps[key] for value in lap.kept]

    def compute_median(self, key: Key, pieces: float = 1.0) -> Estimate:
        """Seconds per piece of work, of which a run has so many."""
        return Estimate.from_runs([spent / pieces for spent in self.get_seconds(key)], "s")

    def compute_rate(self, key: Key, amount: float, unit: str) -> Estimate:
        """Amount per second, of which a run makes so much."""
        return Estimate.from_runs([amount / spent for spent in self.get_seconds(key)], unit)

    def compute_ratio(self, slow: Key, fast: Key) -> Estimate:
        """How many times as fast the second is as the first, run by run."""
        return compute_time_ratio(self.get_seconds(slow), self.get_seconds(fast))


def compute_time_ratio(slow: Sequence[float], fast: Sequence[float]) -> Estimate:
    """Seconds over seconds of the same runs: above 1, ``fast`` is the faster."""
    return Estimate.from_runs([a / b for a, b in zip(slow, fast, strict=True)], "times")


def alternate_streams(streams: Mapping[Key, Iterator[T]]) -> Iterator[tuple[Key, T, float]]:
    """The steps of streams of work as they end. The stream that has worked for the least time makes the next step.

    So other work of the machine affects all alike, and at every moment all have had the same time, up to a step.

    Yields:
        The stream's name, what the step gave, and the seconds that this stream has worked so far.
    """
    streams, spent = dict(streams), dict.fromkeys(streams, 0.0)
    while streams:
        key = min(streams, key=lambda name: spent[name])
        began = time.perf_counter()
        try:
            made = next(streams[key])
        except StopIteration:
            del streams[key]
            continue
        spent[key] += time.perf_counter() - began
        yield key, made, spent[key]
