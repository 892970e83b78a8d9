"""``record``: runs and plans of the shipped pair, stored so that pages can open without torch or weights."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from specviz.commands.options import law_options, pair_options, proposer_options, refuse_proposer, run_options, settings_of
from specviz.errors import SettingsError
from specviz.models.catalogue import ASSETS
from specviz.settings import Settings

PROMPT = "Once upon a time there lived an old"  # of the gallery, where none is given
LENGTH = 48  # tokens that each of its rows writes


def arguments(parser: argparse.ArgumentParser) -> None:
    pair_options(parser)
    run_options(parser)
    law_options(parser)
    proposer_options(parser)
    parser.add_argument("--rounds", type=int, default=6, help="rounds to keep (default: 6)")
    parser.add_argument(
        "--gallery", action="store_true", help="record what Other proposers opens with: every row under three laws"
    )
    parser.add_argument("--plans", action="store_true", help="record what How fast? opens with: plans, each with its measurement")
    parser.add_argument("--tokens-only", action="store_true", help="--plans: leave speed out, for a machine that is busy")
    parser.add_argument("--texts", type=int, default=48, help="--plans: continuations of each plan (default: 48)")
    parser.add_argument("--turns", type=int, default=5, help="--gallery, --plans: how often each row is timed (default: 5)")
    parser.add_argument("--draws", type=int, default=2000, help="--gallery: draws of each row's first token (default: 2,000)")
    parser.add_argument("--out", type=Path, help="file to write (default: the one that the page opens with)")


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    from specviz.models.fingerprint import fingerprints
    from specviz.models.loading import load_pair
    from specviz.runs import run as decode_run

    if options.gallery:
        return gallery(settings, options)
    if options.plans:
        return plans(settings, options)
    pair = load_pair(settings.pair, settings.device, settings.dtype)
    decode_run(pair, settings, rounds=2, bars=0)  # first passes are slow; the times shown are those of a warm pair
    trace = decode_run(pair, settings, rounds=options.rounds)
    trace = replace(trace, models=trace.models | fingerprints(pair))  # an export of it names them without the weights at hand
    out = _written(options, "opening.json", trace.to_json())
    print(f"{len(trace.rounds)} rounds, {len(trace.output_ids)} tokens -> {out}")
    return 0


def gallery(settings: Settings, options: argparse.Namespace) -> int:
    """Run every row under each of the page's laws. Temperature and cuts are the page's own."""
    for name, value, least in (("turns", options.turns, 1), ("draws", options.draws, 1)):
        if value < least:
            raise SettingsError(name, value, f"{least} or more")
    refuse_proposer(options, "--gallery")
    from specviz.lineup import CHOICES, chosen, to_json
    from specviz.lineup_run import line_up
    from specviz.models.loading import load_pair

    length = settings.length if options.max_new_tokens != Settings().length else LENGTH
    base = replace(settings, prompt=settings.prompt or PROMPT, length=length)
    pair = load_pair(settings.pair, settings.device, settings.dtype)

    def watch(share: float, doing: str) -> None:
        print(f"\r{share:4.0%} {doing:<60}", end="", file=sys.stderr, flush=True)

    found = {choice: line_up(pair, chosen(base, choice), options.turns, options.draws, watch) for choice in CHOICES}
    print(file=sys.stderr)
    out = _written(options, "gallery.json", to_json(found))
    print(f"{len(found)} laws, {sum(not row.reason for one in found.values() for row in one.rows)} rows -> {out}")
    return 0


def plans(settings: Settings, options: argparse.Namespace) -> int:
    """Plan and measure every draft at every temperature of the page, on its text."""
    for name, value, least in (("turns", options.turns, 2), ("texts", options.texts, 2)):
        if value < least:
            raise SettingsError(name, value, f"{least} or more")
    refuse_proposer(options, "--plans")
    from specviz.models.loading import load_pair
    from specviz.plan_run import Effort, make_plan
    from specviz.plans import CHOICES, GAMMAS, TEXT, to_json
    from specviz.study_run import SHELF

    text, found = (SHELF / f"{TEXT}.txt").read_text(encoding="utf-8"), {}
    effort = Effort(options.texts, opening=48, probes=0 if options.tokens_only else 15, check=True, turns=options.turns)
    for number, choice in enumerate(CHOICES):
        asked = replace(choice.under(settings), gamma=GAMMAS[-1], length=64)
        pair = load_pair(asked.pair, asked.device, asked.dtype)

        def watch(share: float, doing: str, number: int = number, key: str = choice.key) -> None:
            done = (number + share) / len(CHOICES)
            print(f"\r{done:4.0%} {key}: {doing:<40}", end="", file=sys.stderr, flush=True)

        found[choice.key] = make_plan(pair, asked, text, GAMMAS, effort, f"{TEXT}.txt", watch)
    print(file=sys.stderr)
    out = _written(options, "plans.json", to_json(found))
    print(f"{len(found)} plans -> {out}")
    return 0


def _written(options: argparse.Namespace, name: str, text: str) -> Path:
    out = options.out or ASSETS / "traces" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")
    return out
