"""Give shards to workers, a few at a time, and draw again what was lost. Nothing here knows who the workers are."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from specviz.decoding.samples import Samples
from specviz.errors import ClusterError
from specviz.evidence.shards import Cut, Work

MOST_LOST = 5  # how often the same shard may be lost before the run ends: it may be what kills its workers


class Pool(Protocol):
    """Workers that draw shards."""

    def room(self) -> bool:
        """Whether another shard can be given now."""

    def give(self, work: Work, cut: Cut) -> None:
        """Have a worker draw a shard."""

    def back(self) -> Iterable[tuple[Cut, Samples | None]]:
        """Shards that came back since the last call, in any order; None: lost, draw it again. Waits for a moment if there are none."""


def drawn(pool: Pool, work: Work, cuts: Sequence[Cut]) -> Iterator[Samples]:
    """The samples of all shards, each once, in any order.

    A shard is a pure function, so one that is drawn twice is the same both times. Raises ClusterError for a shard that is lost
    again and again.
    """
    left, under_way, lost = deque(cuts), set(), Counter[Cut]()
    while left or under_way:
        while left and pool.room():
            pool.give(work, left[0])
            under_way.add(left.popleft())
        for cut, samples in pool.back():
            if cut not in under_way:  # a worker that was given up answered after all
                continue
            under_way.remove(cut)
            if samples is not None:
                yield samples
                continue
            lost[cut] += 1
            if lost[cut] > MOST_LOST:
                raise ClusterError(
                    f"Samples {cut.first} to {cut.first + cut.count - 1} were lost {lost[cut]} times with the workers that drew "
                    "them. The usual reason is too little memory for the models, or a machine that is switched off."
                )
            left.appendleft(cut)
