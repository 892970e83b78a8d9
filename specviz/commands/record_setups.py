"""``record --surroundings``: what the page Around the rule opens with, on places spread over a held-out book."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from specviz.commands.options import refuse_proposer
from specviz.errors import SettingsError
from specviz.records import ASSETS, Schema
from specviz.settings import Settings

BOOK = ASSETS / "texts" / "dorothy-and-the-wizard-in-oz.txt"
DRAFT_TOKENS, OPENING, LENGTH = 2, 48, 64  # draft tokens of a round; tokens before and after each place
POSITIONS, TOKENS, GREEDY = 300, 96, 96  # prefixes of each check; tokens of a timed text and of a greedy one


def record_surroundings(settings: Settings, options: argparse.Namespace, keep: Callable[[Schema, str], Path]) -> int:
    """Run the laboratory at temperature 1 without cuts. keep: writes the record, gives the file."""
    for name, value, least in (("runs", options.runs, 1), ("texts", options.texts, 2), ("positions", options.positions, 1)):
        if value < least:
            raise SettingsError(name, value, f"{least} or more")
    refuse_proposer(options, "--surroundings")
    from specviz.models.pairs.fingerprint import fingerprints
    from specviz.models.pairs.loading import load_pair
    from specviz.prediction.predict import openings
    from specviz.serving.setups import SCHEMA, to_json
    from specviz.serving.setups_run import SetupEffort, compare_setups

    pair = load_pair(settings.pair, settings.device, settings.dtype)
    asked = replace(settings, temperature=1.0, top_k=None, top_p=None, min_p=None, prompt="")
    places = openings(pair, BOOK.read_text(encoding="utf-8"), OPENING, LENGTH, options.texts)
    effort = SetupEffort(options.positions, options.runs, TOKENS, options.texts, GREEDY)

    def watch(share: float, doing: str) -> None:
        print(f"\r{share:4.0%} {doing:<70}", end="", file=sys.stderr, flush=True)

    found = compare_setups(pair, asked, places, effort, BOOK.name, watch)
    found = replace(found, models=found.models | fingerprints(pair))
    print(file=sys.stderr)
    if not found.steady:
        print(f"The speeds are no verdict: {found.unsteady}", file=sys.stderr)
    print(f"{sum(not row.reason for row in found.rows)} rows, {len(places)} texts -> {keep(SCHEMA, to_json(found))}")
    return 0
