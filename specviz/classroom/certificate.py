"""The class's evidence as a certificate that ``specviz check`` confirms: every sample can be drawn again from seed and student numbers.

It holds the samples of the last test of the plan (evidence/sequential.py), in the order in which they came, and is tested at that test's
part of the false-alarm rate. So all certificates of a task together have the plan's rate, whenever they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.classroom.records import list_sample_numbers
from specviz.classroom.store import StoredBlock, split_blocks
from specviz.errors import EvidenceError
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.sequential import SCHEDULE
from specviz.evidence.session import SamplingPlan, Session
from specviz.evidence.tests import TestPlan
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, scale_progress
from specviz.settings import Settings

TV = 0.01  # distance that is to be detected, where the samples can


def count_tested(n: int) -> int:
    """How many of n samples a certificate holds: those of the last test that they reach. Raises EvidenceError before the first."""
    look = SCHEDULE.find_due_look(n)
    if look is None:
        raise EvidenceError(f"A certificate needs at least {SCHEDULE.first} samples of the class, got {n}.")
    return SCHEDULE.n(look)


def certificate(
    pair: LoadedPair, settings: Settings, drawn: Sequence[tuple[int, int, int]], on_progress: ProgressCallback
) -> dict[str, Any]:
    """The report, JSON-ready. settings: of the task, with its seed; drawn: (student, first, count) in the order in which they came.

    Raises EvidenceError for fewer samples than the first test has.
    """
    n = count_tested(sum(count for *_, count in drawn))
    numbers = [list_sample_numbers(*one) for one in split_blocks((StoredBlock(*one, {}) for one in drawn), n)]
    session = Session(build_decoder("speculative", pair, settings), SamplingPlan("shared-distributions", n, TV))
    samples = session.redraw(SHARED, n, scale_progress(on_progress, 0.0, 0.3), numbers)
    look = SCHEDULE.find_due_look(n)
    assert look is not None
    plan = TestPlan.for_samples(n, samples.tokens.shape[1], TV, SCHEDULE.level(look) * SCHEDULE.tests)
    session.test(SHARED, scale_progress(on_progress, 0.3, 1.0), plan, blocks=numbers)
    return session.report(numbers)
