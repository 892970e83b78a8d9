"""``record``: runs and plans of the shipped pair, stored so that pages can open without torch or weights."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from specviz.commands.options import pair_options, proposer_options, refuse_proposer, run_options, sampling_options, settings_of
from specviz.commands.record_batches import record_batches
from specviz.commands.record_plans import record_plans
from specviz.commands.record_setups import DRAFT_TOKENS as LAB_DRAFT_TOKENS
from specviz.commands.record_setups import POSITIONS, record_surroundings
from specviz.commands.record_trees import record_trees
from specviz.errors import SettingsError
from specviz.records import ASSETS, Schema
from specviz.settings import Settings
from specviz.trace import SCHEMA

PROMPT = "Once upon a time there lived an old"  # of the gallery and the passage, where none is given
LENGTH = 48  # tokens that each of its rows writes
PASSAGE, DRAFT_TOKENS = (
    128,
    2,
)  # tokens of the passage, and draft tokens per round: of the fixed lengths two pay best on the shipped pair
SURVEYED = 96  # tokens of each other text
KINDS = {  # option -> name of the schema of what it records
    "gallery": "gallery",
    "passage": "passage",
    "plans": "plans",
    "surroundings": "surroundings",
    "trees": "trees",
    "curve": "batches",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    pair_options(parser)
    run_options(parser)
    sampling_options(parser)
    proposer_options(parser)
    parser.set_defaults(gamma=None, max_new_tokens=None)  # what they are where they are not given depends on what is recorded
    parser.add_argument("--rounds", type=int, default=6, help="rounds to keep (default: 6)")
    parser.add_argument(
        "--gallery", action="store_true", help="record what Other proposers opens with: every row under three distributions"
    )
    parser.add_argument(
        "--passage", action="store_true", help="record what Whole text opens with: a text both ways at temperatures 1 and 0"
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=6,
        help="--gallery, --passage, --plans, --surroundings: how often each is timed (default: 6); --curve, --trees: three times as often",
    )
    parser.add_argument("--plans", action="store_true", help="record what How fast? opens with: plans, each with its measurement")
    parser.add_argument(
        "--curve", action="store_true", help="record what How fast? shows of many texts at once: passes over 1 to 64 rows"
    )
    parser.add_argument("--tokens-only", action="store_true", help="--plans: leave speed out, for a machine that is busy")
    parser.add_argument(
        "--trees", action="store_true", help="record how many nodes of a tree pay: what --nodes is where it is left out"
    )
    parser.add_argument(
        "--surroundings", action="store_true", help="record what Around the rule opens with: the target served in other ways"
    )
    parser.add_argument(
        "--positions", type=int, default=POSITIONS, help=f"--surroundings: prefixes of each check (default: {POSITIONS})"
    )
    parser.add_argument("--samples", type=int, default=2000, help="--gallery: draws of each row's first token (default: 2,000)")
    parser.add_argument(
        "--texts",
        type=int,
        help="--passage: other texts that both models read (24); --plans: of each plan (32); --curve (48); --surroundings: texts read (24)",
    )
    parser.add_argument("--out", type=Path, help="file to write (default: the one that the page opens with)")


def run(options: argparse.Namespace) -> int:
    plain = Settings()
    gamma, length = (DRAFT_TOKENS, PASSAGE) if options.passage else (plain.gamma, LENGTH if options.gallery else plain.length)
    gamma = LAB_DRAFT_TOKENS if options.surroundings else gamma
    options.gamma = gamma if options.gamma is None else options.gamma
    options.max_new_tokens = length if options.max_new_tokens is None else options.max_new_tokens
    texts = 32 if options.plans else 48 if options.curve else 24
    options.texts = texts if options.texts is None else options.texts
    settings = settings_of(options)
    if options.out:  # before minutes of work, not after
        kind = next((name for option, name in KINDS.items() if getattr(options, option)), SCHEMA.name)
        Schema(kind, 0, "The record").refuse_other(options.out)
    from specviz.decoding.run import run as decode_run
    from specviz.models.pairs.fingerprint import fingerprints
    from specviz.models.pairs.loading import load_pair

    if options.gallery:
        return gallery(settings, options)
    if options.passage:
        return passages(settings, options)
    if options.plans:
        return record_plans(settings, options, partial(_written, options, "plans.json"))
    if options.surroundings:
        return record_surroundings(settings, options, partial(_written, options, "surroundings.json"))
    if options.trees:
        return record_trees(settings, options, partial(_written, options, "trees.json"))
    if options.curve:
        return record_batches(settings, options, partial(_written, options, "batches.json"))
    pair = load_pair(settings.pair, settings.device, settings.dtype)
    decode_run(pair, settings, rounds=2, bars=0)  # first passes are slow; the times shown are those of a warm pair
    trace = decode_run(pair, settings, rounds=options.rounds)
    trace = replace(trace, models=trace.models | fingerprints(pair))  # an export of it names them without the weights at hand
    out = _written(options, "opening.json", SCHEMA, trace.to_json())
    print(f"{len(trace.rounds)} rounds, {len(trace.output_ids)} tokens -> {out}")
    return 0


def gallery(settings: Settings, options: argparse.Namespace) -> int:
    """Run every row under each of the page's distributions. Temperature and cuts are the page's own."""
    for name, value, least in (("runs", options.runs, 1), ("draws", options.samples, 1)):
        if value < least:
            raise SettingsError(name, value, f"{least} or more")
    refuse_proposer(options, "--gallery")
    from specviz.measure.methods import CHOICES, SCHEMA, chosen, to_json
    from specviz.measure.methods_run import compare_methods
    from specviz.models.pairs.loading import load_pair

    base = replace(settings, prompt=settings.prompt or PROMPT)
    pair = load_pair(settings.pair, settings.device, settings.dtype)

    def watch(share: float, doing: str) -> None:
        print(f"\r{share:4.0%} {doing:<60}", end="", file=sys.stderr, flush=True)

    found = {choice: compare_methods(pair, chosen(base, choice), options.runs, options.samples, watch) for choice in CHOICES}
    print(file=sys.stderr)
    out = _written(options, "gallery.json", SCHEMA, to_json(found))
    print(f"{len(found)} distributions, {sum(not row.reason for one in found.values() for row in one.rows)} rows -> {out}")
    return 0


def passages(settings: Settings, options: argparse.Namespace) -> int:
    """Write a text both ways under each of the page's distributions, and read other texts beside it. Temperature and cuts are the page's own."""
    for name, value, least in (("runs", options.runs, 1), ("texts", options.texts, 0)):
        if value < least:
            raise SettingsError(name, value, f"{least} or more")
    refuse_proposer(options, "--passage")
    from specviz.figures.whole_text.lanes import speed
    from specviz.measure.passage import DISTRIBUTIONS, SCHEMA, to_json
    from specviz.measure.passage_run import survey, write
    from specviz.models.pairs.fingerprint import fingerprints
    from specviz.models.pairs.loading import load_pair

    base = replace(settings, prompt=settings.prompt or PROMPT)
    pair, found = load_pair(settings.pair, settings.device, settings.dtype), {}
    for name, probs in DISTRIBUTIONS.items():
        one = write(pair, replace(base, **probs), options.runs)
        texts = survey(pair, one.settings, options.texts, SURVEYED)
        found[name] = replace(one, survey=texts, models=one.models | fingerprints(pair))
        print(f"{name}: {speed(one)}", file=sys.stderr)
    print(
        f"{len(found)} distributions, {base.length} tokens each way -> {_written(options, 'passage.json', SCHEMA, to_json(found))}"
    )
    return 0


def _written(options: argparse.Namespace, name: str, schema: Schema, text: str) -> Path:
    """Write a record over an earlier one of its kind; another file is left alone."""
    return schema.save(options.out or ASSETS / "traces" / name, text)
