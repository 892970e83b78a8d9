"""``record --trees``: how many nodes of a tree pay, from curves measured here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from specviz.commands.options import refuse_proposer
from specviz.errors import SettingsError
from specviz.records import Schema
from specviz.settings import Settings

LENGTH = 96  # tokens that each prompt of the bench is continued by
NAMES = {"tree": "draft's tree", "medusa": "heads' tree"}  # proposer -> who that is in a curve


def record_trees(settings: Settings, options: argparse.Namespace, keep: Callable[[Schema, str], Path]) -> int:
    """Measure trees of several sizes as ``bench --curve`` does. keep: writes the record, gives the file."""
    if options.runs < 1:
        raise SettingsError("runs", options.runs, "1 or more")
    refuse_proposer(options, "--trees")
    from specviz.measure.bench import machine
    from specviz.measure.curves import measure
    from specviz.models.pairs.loading import load_pair
    from specviz.proposers.trees.node_count import SCHEMA, Paying, Point, key_of

    pair = load_pair(settings.pair, settings.device, settings.dtype)
    found = measure(pair, settings.gamma, LENGTH, 3 * options.runs, lambda line: print(line, file=sys.stderr, flush=True))
    points = {}
    for temperature in (0.0, 1.0):
        for proposer, name in NAMES.items():
            budgets = found.budgets.get(f"{name}, temperature {temperature:g}", ())
            if budgets:
                points[key_of(proposer, temperature)] = tuple(Point(b.nodes, b.tokens_per_pass, b.speed) for b in budgets)
    paying = Paying(points, pair.name, machine(pair), datetime.now(UTC).strftime("%-d %B %Y"))
    best = ", ".join(f"{key}: {max(values, key=lambda point: point.speed).nodes} nodes" for key, values in points.items())
    print(f"{best} -> {keep(SCHEMA, paying.to_json())}")
    return 0
