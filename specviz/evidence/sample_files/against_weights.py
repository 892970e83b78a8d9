"""Test the samples of a file like our own: against the exact distribution of a pair's target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from specviz.evidence.decoder import build_decoder
from specviz.evidence.report import build_report
from specviz.evidence.sample_files.reading import SampleFile, find_period, refuse_repeats, to_samples
from specviz.evidence.scores import score_samples
from specviz.evidence.tests import Plan, run_tests
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, scale_progress
from specviz.settings import Settings

MODE = "file"


def report_against_weights(
    file: SampleFile, settings: Settings, make_plan: Callable[[int, int], Plan], pair: LoadedPair, on_progress: ProgressCallback
) -> dict[str, Any]:
    """The report of one file, JSON-ready. ``settings.prompt`` is the file's.

    make_plan  (n, length) -> the plan, with the number of cells and the distance to detect

    Raises EvidenceError if the file cannot be tested, SettingsError if it was sampled from another distribution.
    """
    drawn, ids = to_samples(file, settings, pair.vocabulary, pair.eos_token_ids), pair.encode(settings.prompt)
    target, draft = pair.open(settings)
    said, quiet = "", scale_progress(on_progress, 0.0, 0.0)  # shows no progress, but lets the work be stopped
    if find_period(file.samples) < len(drawn):
        with np.errstate(divide="ignore"):
            chances = np.nansum(np.log(score_samples(target, None, ids, drawn, pair.eos_token_ids, quiet).mass), axis=1).tolist()
        said = refuse_repeats(file, chances)
    reference = build_decoder("target", pair, settings, ids).sample_target(on_progress=quiet)
    plan = make_plan(len(drawn), settings.max_new_tokens)
    found = run_tests(plan, target, draft, ids, drawn, MODE, pair.eos_token_ids, reference, on_progress)
    return build_report(file.name, [found], pair, settings, files=[file.describe()], said=said)


def report_file(
    pair: LoadedPair, file: SampleFile, settings: Settings, tv: float, on_progress: ProgressCallback
) -> dict[str, Any]:
    """``report_against_weights`` with the largest plan that a file's samples allow, for a total variation ``tv``. Pure."""
    return report_against_weights(file, settings, lambda n, length: Plan.fitting(n, length, tv), pair, on_progress)
