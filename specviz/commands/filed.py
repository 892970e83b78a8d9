"""``verify --samples``: draws of any server, from a file, against the law of local weights or against a second file."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from specviz.commands.progress import Progress
from specviz.errors import SettingsError
from specviz.settings import Settings

MODE = "file"


def filed(settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    """The report of one file against the target's law, or of two files. The prompt is the file's."""
    from specviz.evidence.compared import compare
    from specviz.evidence.files import read

    if options.samples is None:
        raise SettingsError("samples", None, "given with --against: the two files are compared")
    heap = read(options.samples)
    if settings.prompt not in ("", heap.prompt):
        raise SettingsError("prompt", settings.prompt, f"left out, or the file's, {heap.prompt[:80]!r}")
    if options.against is not None:
        return compare(heap, read(options.against), options.tv, settings.seed)
    return against_law(heap, replace(settings, prompt=heap.prompt), options.tv)


def against_law(heap, settings: Settings, tv: float) -> dict[str, Any]:
    """Test the draws of a file as our own are tested; JSON-ready."""
    from specviz.evidence import sources
    from specviz.evidence.experiment import Plan, answer
    from specviz.evidence.files import refuse_repeats, repeated, samples
    from specviz.evidence.report import report
    from specviz.models.loading import load_pair

    pair = load_pair(settings.pair, settings.device, settings.dtype)
    drawn, ids = samples(heap, settings, pair.vocabulary, pair.stops), pair.encode(settings.prompt)
    target, draft = pair.open(settings)
    said = ""
    if repeated(heap.draws) < len(drawn):
        said = refuse_repeats(heap, _log_chances(target, ids, drawn, pair.stops))
    plan, alone = Plan.of(len(drawn), settings.length, tv), sources.reference(pair, settings, ids)
    found = answer(plan, target, draft, ids, drawn, MODE, pair.stops, alone, Progress(f"{heap.name}: reading"))
    return report(heap.name, [found], pair, settings, files=[heap.describe()], said=said)


def _log_chances(target, ids, drawn, stops) -> list[float]:
    """Log probability of each draw under the exact law, (N,)."""
    from specviz.evidence.scores import score

    with np.errstate(divide="ignore"):
        return np.nansum(np.log(score(target, None, ids, drawn, stops).mass), axis=1).tolist()
