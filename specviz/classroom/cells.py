"""The cells of a task's histogram and of its tests: made once from the exact distribution, kept as JSON, and counted in as samples come.

The tests are those of *Is it exact?* (evidence/sequential.py): at 100, 1,000, ... samples of the class, in the order in which they came,
each in cells and at a level that were fixed before the first. Who asks for samples next may depend on what was seen, but no sample's
value does, so the order is no choice among values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specviz.classroom.store import Drawn
from specviz.decoding.samples import Samples
from specviz.evidence import sequential
from specviz.evidence.partition import Partition


@dataclass(frozen=True, slots=True)
class Cells:
    """shown: of the picture; looks: of each test, in their order."""

    shown: Partition
    looks: tuple[Partition, ...]

    def to_record(self) -> dict[str, Any]:
        return {"shown": _record(self.shown), "looks": [_record(one) for one in self.looks]}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Cells:
        return cls(_partition(record["shown"]), tuple(map(_partition, record["looks"])))


def _record(one: Partition) -> dict[str, Any]:
    return {
        "names": [list(name) for name in one.names],
        "masses": one.masses.tolist(),
        "length": one.length,
        "whole": one.whole.tolist(),
    }


def _partition(record: dict[str, Any]) -> Partition:
    names = tuple(tuple(name) for name in record["names"])
    return Partition(names, np.array(record["masses"]), record["length"], np.array(record["whole"]))


@dataclass(frozen=True, slots=True)
class Counted:
    """Samples of several students as they are kept, and the tests that fell due: look -> what it found."""

    drawn: tuple[Drawn, ...]
    looks: dict[int, dict[str, Any]]


class Tally:
    """Counts of a task so far. What is kept of it is enough to begin again where it stood."""

    def __init__(self, cells: Cells, drawn: Sequence[Drawn] = ()):
        self.cells, self.n = cells, 0
        self.looks = [np.zeros(len(one.names), dtype=np.int64) for one in cells.looks]
        for one in drawn:
            self.n += one.count
            for look, counts in one.cells["looks"].items():
                self._add(int(look), counts)

    def _add(self, look: int, counts: dict[str, int]) -> None:
        for cell, count in counts.items():
            self.looks[look][int(cell)] += count

    def count(self, asked: Sequence[tuple[int, int, int]], samples: Samples) -> Counted:
        """Count in the samples of several students. asked: (student, first, count) each; samples: theirs, one after the other."""
        drawn, found, begin = [], {}, 0
        for student, first, count in asked:
            part = samples.part(begin, begin + count)
            cells: dict[str, Any] = {"shown": _sparse(self.cells.shown.counts(part)), "looks": {}}
            for look, partition in enumerate(self.cells.looks):
                due = sequential.LOOKS.n(look)
                if self.n >= due:
                    continue
                counts = _sparse(partition.counts(part.part(0, min(count, due - self.n))))
                cells["looks"][str(look)] = counts
                self._add(look, counts)
                if self.n + count >= due:
                    found[look] = judged(look, partition, self.looks[look])
            self.n, begin = self.n + count, begin + count
            drawn.append(Drawn(student, first, count, cells))
        return Counted(tuple(drawn), found)


def judged(look: int, partition: Partition, counts: np.ndarray) -> dict[str, Any]:
    """What a test of the class's samples found, JSON-ready."""
    answer = sequential.judge(look, partition, counts, "the class")
    tests = [asdict(test) for test in answer.tests]
    return {
        "n": answer.plan.n, "verdict": answer.verdict, "sentence": answer.sentence, "detectable_tv": answer.detectable_tv,
        "level": answer.plan.level, "p_values": {test["name"]: test["p_value"] for test in tests}, "pooled": answer.pooled,
    }  # fmt: skip


def _sparse(counts: np.ndarray) -> dict[str, int]:
    return {str(cell): int(counts[cell]) for cell in np.flatnonzero(counts)}
