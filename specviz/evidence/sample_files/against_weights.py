"""Draws of a file tested as our own are: against the exact distribution of a pair's target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from specviz.evidence import sources
from specviz.evidence.experiment import Plan, answer, part
from specviz.evidence.report import report
from specviz.evidence.sample_files.reading import SampleFile, refuse_repeats, repeated, samples
from specviz.evidence.scores import score
from specviz.models.pairs.loading import Pair
from specviz.settings import Settings

MODE = "file"


def against_distribution(
    heap: SampleFile, settings: Settings, make_plan: Callable[[int, int], Plan], pair: Pair, watch: Callable[[float], None]
) -> dict[str, Any]:
    """The report of one file; JSON-ready. ``settings.prompt`` is the file's.

    make_plan  (n, length) -> the plan that says how many cells there are and what must be seen

    Raises EvidenceError where the file cannot be tested, SettingsError where it was drawn under another distribution.
    """
    drawn, ids = samples(heap, settings, pair.vocabulary, pair.eos_token_ids), pair.encode(settings.prompt)
    target, draft = pair.open(settings)
    said, quiet = "", part(watch, 0.0, 0.0)  # no share of its own, but moments at which the work may be stopped
    if repeated(heap.draws) < len(drawn):
        with np.errstate(divide="ignore"):
            chances = np.nansum(np.log(score(target, None, ids, drawn, pair.eos_token_ids, quiet).mass), axis=1).tolist()
        said = refuse_repeats(heap, chances)
    alone = sources.reference(pair, settings, ids, watch=quiet)
    found = answer(make_plan(len(drawn), settings.length), target, draft, ids, drawn, MODE, pair.eos_token_ids, alone, watch)
    return report(heap.name, [found], pair, settings, files=[heap.describe()], said=said)
