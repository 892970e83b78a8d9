"""``record --curve``: what the page How fast? shows of many texts side by side."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from specviz.commands.options import refuse_proposer
from specviz.commands.progress import Progress
from specviz.commands.record_plans import LENGTH, OPENING
from specviz.errors import SettingsError
from specviz.records import Schema
from specviz.settings import Settings

DRAFTS = ("storybook", "storybook-distilled")  # of one shape, so that one set of passes is true of both
NO_VERDICT = 3


def record_batches(settings: Settings, options: argparse.Namespace, keep: Callable[[Schema, str], Path]) -> int:
    """Time passes over more and more rows, count the rounds of the page's drafts at its temperatures. keep: as in record_plans."""
    for name, value, least in (("runs", options.runs, 1), ("texts", options.texts, 2)):
        if value < least:
            raise SettingsError(name, value, f"{least} or more")
    refuse_proposer(options, "--curve")
    from specviz.models.pairs.loading import load_pair
    from specviz.prediction.batches import SCHEMA
    from specviz.prediction.batches_run import measure_batches
    from specviz.prediction.plans import TEMPERATURES, TEXT, Choice
    from specviz.prediction.study_run import TEXTS_FOLDER

    choices = [Choice(draft, temperature) for draft in DRAFTS for temperature in sorted(TEMPERATURES, reverse=True)]
    pairs = {}
    for choice in choices:
        asked = replace(choice.under(settings), length=LENGTH)
        pairs[choice.key] = load_pair(asked.pair, asked.device, asked.dtype), asked
    progress = Progress("curve")
    text = (TEXTS_FOLDER / f"{TEXT}.txt").read_text(encoding="utf-8")
    found = measure_batches(pairs, text, options.texts, OPENING, 3 * options.runs, watch=lambda share, doing: progress(share))
    print(f"{len(found.rows)} numbers of texts, {len(found.gammas)} gammas -> {keep(SCHEMA, found.to_json())}")
    print(found.in_words(choices[0].key))
    return 0 if found.steady else NO_VERDICT
