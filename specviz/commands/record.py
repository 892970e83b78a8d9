"""``record``: a run of the shipped pair, stored so that the page can open without torch or weights."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from specviz.commands.options import law_options, pair_options, run_options, settings_of
from specviz.models.catalogue import ASSETS


def arguments(parser: argparse.ArgumentParser) -> None:
    pair_options(parser)
    run_options(parser)
    law_options(parser)
    parser.add_argument("--rounds", type=int, default=6, help="rounds to keep (default: 6)")
    parser.add_argument("--out", type=Path, default=ASSETS / "traces" / "opening.json")


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    from specviz.models.fingerprint import fingerprints
    from specviz.models.loading import load_pair
    from specviz.runs import run as decode_run

    pair = load_pair(settings.pair, settings.device, settings.dtype)
    decode_run(pair, settings, rounds=2, bars=0)  # first passes are slow; the times shown are those of a warm pair
    trace = decode_run(pair, settings, rounds=options.rounds)
    trace = replace(trace, models=trace.models | fingerprints(pair))  # an export of it names them without the weights at hand
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(trace.to_json() + "\n")
    print(f"{len(trace.rounds)} rounds, {len(trace.output_ids)} tokens -> {options.out}")
    return 0
