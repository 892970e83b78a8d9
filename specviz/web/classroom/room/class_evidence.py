"""Samples of several students: counted and tested as they come, and certified so that ``specviz check`` confirms them.

The tests are those of *Exactness test* (evidence/sampling/sampling_plan.py): at 100, 1,000, ... samples of the class, in the order in which they came,
each in cells and at a level that were fixed before the first. Who requests samples next may depend on the counts so far, but no sample's
value does, so the order is no choice among values.

A certificate holds the samples of the last test, which anyone can draw again from seed and student numbers. It is tested at that
test's part of the false-alarm rate, so all certificates of a task together have the plan's rate, whenever they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from specviz.decoding.samples import Samples
from specviz.errors import EvidenceError
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.sampling.sampling_plan import INTERIM, SCHEDULE, SequentialCells
from specviz.evidence.sampling.session import Session
from specviz.evidence.testing.hypothesis_tests import TestReport
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, scale_progress
from specviz.settings import Settings
from specviz.web.classroom.room.records import list_sample_numbers
from specviz.web.classroom.room.store import SampleBlock, take_first_samples


def restore_session(pair: LoadedPair, settings: Settings, cells: dict[str, Any], blocks: Iterable[SampleBlock]) -> Session:
    """The session of a task from its stored samples. cells: as ``SequentialCells.to_record``."""
    decoder = build_decoder("speculative", pair, settings, label="the class")
    session = Session(decoder, INTERIM, cells=SequentialCells.from_record(cells))
    for block in blocks:
        session.restore(block.count, dict(block.cells))
    return session


def count_blocks(
    session: Session, requests: Sequence[tuple[int, int, int]], samples: Samples
) -> tuple[tuple[SampleBlock, ...], dict[int, dict[str, Any]]]:
    """Count the samples of several students.

    Args:
        session: Of the task; it grows.
        requests: (student, first, count) each.
        samples: Theirs, one block after the other.

    Returns:
        The blocks to store, and the record of each test that fell due by its number.
    """
    blocks: list[SampleBlock] = []
    results: dict[int, dict[str, Any]] = {}
    start = 0
    for student, first, count in requests:
        added = session.count(samples.slice_samples(start, start + count))
        results |= {number: _dump_test(report) for number, report in added.due.items()}
        blocks.append(SampleBlock(student, first, count, added.to_record()))
        start += count
    return tuple(blocks), results


def _dump_test(report: TestReport) -> dict[str, Any]:
    return {
        "n": report.plan.n, "verdict": report.verdict, "sentence": report.sentence, "detectable_tv": report.detectable_tv,
        "level": report.plan.level, "p_values": {test["name"]: test["p_value"] for test in map(asdict, report.tests)},
        "pooled": report.partition.pooled_mass, "exercised": report.coverage and report.coverage.to_record(),
    }  # fmt: skip


def count_certified(n: int) -> int:
    """How many of n samples a certificate holds: those of the last test that they reach. Raises EvidenceError before the first."""
    test = SCHEDULE.find_due_look(n)
    if test is None:
        raise EvidenceError(f"A certificate needs at least {SCHEDULE.first} samples of the class, got {n}.")
    return SCHEDULE.count_samples(test)


def build_certificate(
    pair: LoadedPair, settings: Settings, blocks: Sequence[tuple[int, int, int]], on_progress: ProgressCallback
) -> Mapping[str, Any]:
    """The report, JSON-ready.

    Args:
        pair: Loaded models.
        settings: Of the task, with its seed.
        blocks: (student, first, count) in the order in which the samples came.
        on_progress: Called with the share that is done.

    Raises:
        EvidenceError: For fewer samples than the first test has.
    """
    n = count_certified(sum(count for *_, count in blocks))
    numbers = [list_sample_numbers(*block) for block in take_first_samples((SampleBlock(*one, {}) for one in blocks), n)]
    session = Session(build_decoder("speculative", pair, settings), INTERIM)
    samples = session.draw_exactly(SHARED, n, scale_progress(on_progress, 0.0, 0.3), numbers)
    look = SCHEDULE.find_due_look(n)
    assert look is not None
    plan = INTERIM.plan_certificate(look, samples.tokens.shape[1])
    session.test(SHARED, scale_progress(on_progress, 0.3, 1.0), plan, blocks=numbers)
    return session.report(numbers)
