"""``record --plans``: the plans that the page How fast? opens with, each beside its measurement."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from specviz.commands.options import refuse_proposer
from specviz.errors import SettingsError
from specviz.records import Schema
from specviz.settings import Settings

OPENING, LENGTH, PROBES = 48, 64, 15  # tokens before and after each place, runs of the cost probes


def record_plans(settings: Settings, options: argparse.Namespace, keep: Callable[[Schema, str], Path]) -> int:
    """Plan and measure every draft at every temperature of the page, on its text. keep: writes the record, gives the file."""
    for name, value in (("runs", options.runs), ("texts", options.texts)):
        if value < 2:
            raise SettingsError(name, value, "2 or more")
    refuse_proposer(options, "--plans")
    from specviz.models.pairs.loading import load_pair
    from specviz.prediction.plan_run import PlanEffort, make_plan
    from specviz.prediction.plans import CHOICES, GAMMAS, SCHEMA, TEXT, to_json
    from specviz.prediction.study_run import TEXTS_FOLDER

    text, found = (TEXTS_FOLDER / f"{TEXT}.txt").read_text(encoding="utf-8"), {}
    probes = 0 if options.tokens_only else PROBES
    effort = PlanEffort(options.texts, OPENING, probes, check=True, runs=options.runs)
    for number, choice in enumerate(CHOICES):
        asked = replace(choice.under(settings), gamma=GAMMAS[-1], length=LENGTH)
        pair = load_pair(asked.pair, asked.device, asked.dtype)

        def watch(share: float, doing: str, number: int = number, key: str = choice.key) -> None:
            done = (number + share) / len(CHOICES)
            print(f"\r{done:4.0%} {key}: {doing:<40}", end="", file=sys.stderr, flush=True)

        began = time.monotonic()
        found[choice.key] = make_plan(pair, asked, text, GAMMAS, effort, f"{TEXT}.txt", watch)
        print(f"\r{choice.key}: {time.monotonic() - began:.0f} s. {found[choice.key].in_words:<60}", file=sys.stderr)
    print(f"{len(found)} plans -> {keep(SCHEMA, to_json(found))}")
    return 0
