"""The class's evidence as a certificate that ``specviz check`` confirms: every sample can be drawn again from seed and student numbers.

It holds the samples of the last test of the plan (evidence/sequential.py), in the order in which they came, and is tested at that test's
part of the false-alarm rate. So all certificates of a task together have the plan's rate, whenever they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specviz.classroom.records import block
from specviz.classroom.store import Drawn, blocks
from specviz.errors import EvidenceError
from specviz.evidence import decoders
from specviz.evidence.report import report
from specviz.evidence.sequential import LOOKS
from specviz.evidence.tests import Plan, answer
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.settings import Settings

TV = 0.01  # distance that is to be detected, where the samples can


def tested(n: int) -> int:
    """How many of n samples a certificate holds: those of the last test that they reach. Raises EvidenceError before the first."""
    look = LOOKS.due(n)
    if look is None:
        raise EvidenceError(f"A certificate needs at least {LOOKS.first} samples of the class, got {n}.")
    return LOOKS.n(look)


def certificate(
    pair: LoadedPair, settings: Settings, drawn: Sequence[tuple[int, int, int]], on_progress: ProgressCallback
) -> dict[str, Any]:
    """The report, JSON-ready. settings: of the task, with its seed; drawn: (student, first, count) in the order in which they came.

    Raises EvidenceError for fewer samples than the first test has.
    """
    n = tested(sum(count for *_, count in drawn))
    asked = [block(*one) for one in blocks((Drawn(*one, {}) for one in drawn), n)]
    ids, (target, draft) = pair.encode(settings.prompt), pair.open(settings)
    samples = decoders.draw_blocks("speculative", pair, settings, ids, asked, lambda share, *_: on_progress(0.3 * share))
    look = LOOKS.due(n)
    assert look is not None
    plan = Plan.fitting(n, samples.tokens.shape[1], TV, LOOKS.level(look) * LOOKS.tests)
    reference = decoders.reference(pair, settings, ids)
    found = answer(
        plan,
        target,
        draft,
        ids,
        samples,
        decoders.SHARED,
        pair.eos_token_ids,
        reference,
        lambda share, *_: on_progress(0.3 + 0.7 * share),
    )
    found = replace(found, near=decoders.near("speculative", pair, settings, ids, found.partition, n, asked))
    return report("speculative", [found], pair, settings, blocks=asked)
