"""Samples of several students counted as they come: what is kept of each, and the tests of the class that fell due.

The tests are those of *Is it exact?* (evidence/sequential.py): at 100, 1,000, ... samples of the class, in the order in which they came,
each in cells and at a level that were fixed before the first. Who asks for samples next may depend on what was seen, but no sample's
value does, so the order is no choice among values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specviz.classroom.store import StoredBlock
from specviz.decoding.samples import Samples
from specviz.evidence.sequential import SequentialCells
from specviz.evidence.session import Tally
from specviz.evidence.tests import TestReport


@dataclass(frozen=True, slots=True)
class StudentCounts:
    """Samples of several students as they are kept, and the tests that fell due: number of the test -> its record."""

    drawn: tuple[StoredBlock, ...]
    looks: dict[int, dict[str, Any]]


def restore_tally(cells: dict[str, Any], drawn: Iterable[StoredBlock]) -> Tally:
    """The tally of a task from what is kept of it. cells: as ``SequentialCells.to_record``."""
    tally = Tally(SequentialCells.from_record(cells), "the class")
    for one in drawn:
        tally.restore(one.count, dict(one.cells))
    return tally


def count_students(tally: Tally, blocks: Sequence[tuple[int, int, int]], samples: Samples) -> StudentCounts:
    """Count in the samples of several students. blocks: (student, first, count) each; samples: theirs, one after the other."""
    drawn, found, begin = [], {}, 0
    for student, first, count in blocks:
        added = tally.add(samples.part(begin, begin + count))
        found |= {number: to_record(report) for number, report in added.due.items()}
        drawn.append(StoredBlock(student, first, count, added.to_record()))
        begin += count
    return StudentCounts(tuple(drawn), found)


def to_record(report: TestReport) -> dict[str, Any]:
    """What a test of the class's samples found, JSON-ready."""
    tests = [asdict(test) for test in report.tests]
    exercised = report.coverage and report.coverage.to_record()
    return {
        "n": report.plan.n, "verdict": report.verdict, "sentence": report.sentence, "detectable_tv": report.detectable_tv,
        "level": report.plan.level, "p_values": {test["name"]: test["p_value"] for test in tests}, "pooled": report.partition.pooled_mass,
        "exercised": exercised,
    }  # fmt: skip
