"""A whole verification: draw samples of a decoder in each mode, test them, and report. Commands and the Python interface call this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from specviz.evidence import decoders
from specviz.evidence.report import report
from specviz.evidence.saved import SavedSamples
from specviz.evidence.shards import draw_all
from specviz.evidence.tests import Plan, answer
from specviz.jobs.tasks import Executor
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.settings import Settings


@dataclass(frozen=True, slots=True)
class SampleEffort:
    """How a decoder is sampled and tested.

    mode     both, shared-distributions or engine
    samples  number on shared distributions, and most from the engine
    tv       total variation that the tests must detect, above 0 and at most 1
    seconds  time for samples from the engine
    """

    mode: str = "both"
    samples: int = 200_000
    tv: float = 0.01
    seconds: float = 60.0


def sampled_and_tested(
    pair: LoadedPair,
    settings: Settings,
    name: str,
    effort: SampleEffort,
    saved: SavedSamples,
    told: Callable[[str], ProgressCallback],
    executor: Executor | None = None,
) -> dict[str, Any]:
    """The report, JSON-ready, of the decoder ``name`` under these settings (``sources.known`` and ``sources.under``).

    saved      the samples drawn so far; they grow
    told       what is being done -> what is told the share of it that is done; may raise to stop
    executor   workers that draw the shards; None: this process
    """
    ids, answers = pair.encode(settings.prompt), []
    target, draft = pair.open(settings)
    reference = decoders.reference(pair, settings, ids)
    for mode in decoders.modes(name, effort.mode, settings):
        drawing = told(f"{name}, {mode}: drawing")
        samples = draw_all(saved, name, mode, pair, settings, ids, effort.samples, effort.seconds, drawing, executor)
        planned = Plan.fitting if answers else Plan.of  # after shared distributions, the engine detects what its samples allow
        plan = planned(len(samples), samples.tokens.shape[1], effort.tv)
        testing = told(f"{name}, {mode}: testing")
        found = answer(plan, target, draft, ids, samples, mode, pair.eos_token_ids, reference, testing)
        answers.append(replace(found, near=decoders.near(name, pair, settings, ids, found.partition, len(samples))))
    exact = decoders.analytic_tv(name, pair, settings, ids) if effort.mode != "shared-distributions" else None
    return report(name, answers, pair, settings, exact)
