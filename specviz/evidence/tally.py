"""Samples of decoders counted in cells that were fixed before the first sample, and what each test found. No torch before a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from specviz.statistics.finding import Finding

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples
    from specviz.evidence.partition import Partition
    from specviz.evidence.tests import Answer

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)  # samples at each test, as in looks.py; a test compares them


@dataclass(frozen=True, slots=True)
class Look:
    """What a test found, in plain numbers.

    n              samples; verdict  one of experiment.VERDICTS
    tests          its findings, chi-square first
    detectable_tv  the total variation distance on the cells that it detects 99 times in 100, in (0, 1]
    pooled         probability of the cells that hold several texts, in [0, 1]
    cells          how many cells can occur; tells  whether they can show a difference
    counts         samples in each cell, (C,)
    """

    n: int
    verdict: str
    tests: tuple[Finding, ...]
    detectable_tv: float
    pooled: float
    cells: int
    tells: bool
    counts: tuple[int, ...]

    @classmethod
    def of(cls, found: Answer) -> Look:
        cells = found.partition
        return cls(found.plan.n, found.verdict, found.tests, found.detectable_tv, found.pooled, int((cells.masses > 0).sum()),
                   cells.tells, tuple(found.counts.tolist()))  # fmt: skip


def possible(cells: Partition) -> Partition:
    """Without cells that the target never writes; the tests find a sample there. The first cell stays, for all other texts."""
    keep = cells.masses > 0.0
    keep[0] = True
    names = tuple(compress(cells.names, keep))
    return replace(cells, names=names, masses=cells.masses[keep], whole=cells.whole[keep])


class Tally:
    """Counts of several decoders, in the cells of a picture and in those of every test.

    names  of the decoders; the first ``tested`` of them are tested
    cells  of the picture; looks  those of each test, in the order of SIZES
    """

    def __init__(self, names: tuple[str, ...], tested: int, cells: Partition, looks: Sequence[Partition]):
        self.names, self.n, self.cells, self.looks = names, 0, cells, looks
        self.counts = [np.zeros(len(cells.names), dtype=np.int64) for _ in names]
        self.look_counts = [[np.zeros(len(one.names), dtype=np.int64) for one in looks] for _ in range(tested)]

    def add(self, arms: Sequence[Samples]) -> tuple[tuple[Look, ...], ...]:
        """Count the next samples of each decoder in; they must not go past the next of SIZES. Returns what a test found that is due then."""
        from specviz.evidence.sequential import judge

        for counts, samples in zip(self.counts, arms, strict=True):
            counts += self.cells.counts(samples)
        for look_counts, samples in zip(self.look_counts, arms, strict=False):
            for size, cells, counts in zip(SIZES, self.looks, look_counts, strict=True):
                if self.n < size:
                    counts += cells.counts(samples)
        self.n += len(arms[0])
        return tuple(
            tuple(
                Look.of(judge(look, self.looks[look], one[look], name))
                for name, one in zip(self.names, self.look_counts, strict=False)
            )
            for look, size in enumerate(SIZES)
            if size == self.n
        )
