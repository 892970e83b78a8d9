"""``verify``: are a decoder's draws distributed as the target's law says? Draws, tests, and what they could have seen."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.commands import matrix
from specviz.commands.options import (
    law_options,
    pair_name,
    pair_options,
    proposer_fields,
    proposer_options,
    refuse_proposer,
    refuse_unknown,
)
from specviz.commands.progress import Progress
from specviz.errors import SettingsError
from specviz.settings import Settings

if TYPE_CHECKING:
    from specviz.evidence.saved import Kept

LENGTHS, DRAWS = (1, 4), (1, 20_000_000)
MODES = ("both", "shared-laws", "engine")
DRAWN = 200_000  # where --draws is left out
CODES = {"consistent": 0, "rejected": 1, "too few draws": 3}
TV = 0.01  # distance that must be seen where --tv is left out
BUDGET = 60.0  # seconds of the engine, and of decoders that draw one text at a time


def arguments(parser: argparse.ArgumentParser) -> None:
    pair_options(parser)
    law_options(parser)
    proposer_options(parser)
    parser.add_argument(
        "--decoder",
        default="speculative",
        help="speculative (default), target, assisted, or the id of a published mistake, which brings its own settings",
    )
    parser.add_argument("--prompt", default="", help="text to continue (default: the start token alone)")
    parser.add_argument("--length", type=int, default=3, help="tokens per draw, 1 to 4: their joint law is tested (default: 3)")
    parser.add_argument("--draws", type=int, default=DRAWN, help=f"number of draws on shared laws (default: {DRAWN})")
    parser.add_argument("--seed", type=int, default=7, help="fixes every draw (default: 7)")
    parser.add_argument(
        "--mode",
        type=lambda text: text.replace(" ", "-"),
        choices=MODES,
        default="both",
        help="on shared laws, through the engine, or both (default)",
    )
    parser.add_argument("--tv", type=float, help="total variation that must be seen (default: 0.01; with --all 0.02)")
    matrix.arguments(parser)
    parser.add_argument("--seconds", type=float, default=BUDGET, help="time for draws through the engine (default: 60)")
    parser.add_argument("--samples", type=Path, metavar="FILE", help="test draws from a file (docs/collecting-draws.md)")
    parser.add_argument("--against", type=Path, metavar="FILE2", help="compare --samples with a second file, without any weights")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="also write a certificate, tables, figures and a zip of all there"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep what is drawn in FILE every few seconds; the same command goes on from there (default with --out: DIR.draws)",
    )


def usual() -> dict[str, Any]:
    """Every option as it is where nobody gives it."""
    parser = argparse.ArgumentParser()
    arguments(parser)
    return vars(parser.parse_args([]))


def run(options: argparse.Namespace) -> int:
    if options.all or options.only:
        return matrix.run(options, usual())
    options.tv = TV if options.tv is None else options.tv
    settings, kept = settings_of(options), None
    if options.samples or options.against:
        from specviz.commands.samples_files import filed

        record = filed(settings, options)
    else:
        from specviz.models.pairs.loading import load_pair

        refuse_unknown(settings)
        record, kept = verified(load_pair(settings.pair, settings.device, settings.dtype), settings, options)
    if options.out:
        from specviz.export.folder import write
        from specviz.export.report import files

        write(options.out, files(record))
    if kept is not None:
        kept.forget()
    from specviz.commands.verdicts import as_text

    print(json.dumps(record, indent=1, allow_nan=False) if options.format == "json" else as_text(record))
    return CODES[record["verdict"]]


def settings_of(options: argparse.Namespace) -> Settings:
    """Settings of the options; every number that is out of range is refused before anything is loaded."""
    for name, value, (low, high) in (("length", options.length, LENGTHS), ("draws", options.draws, DRAWS)):
        if not low <= value <= high:
            raise SettingsError(name, value, f"a whole number from {low} to {high:,}")
    if not 0.0 < options.tv <= 1.0:
        raise SettingsError("tv", options.tv, "above 0 and at most 1")
    if not options.seconds > 0:
        raise SettingsError("seconds", options.seconds, "above 0")
    if options.decoder.lower() != "speculative":
        refuse_proposer(options, f"--decoder {options.decoder}")
    if options.samples or options.against:
        for name, usual in (("resume", None), ("decoder", "speculative"), ("draws", DRAWN), ("mode", "both")):
            if (value := getattr(options, name)) != usual:
                raise SettingsError(name, str(value), "left out with --samples: nothing is drawn")
    if options.out:
        from specviz.export.folder import writable

        writable(options.out)
    return Settings(
        pair=pair_name(options),
        prompt=options.prompt,
        gamma=options.gamma,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        seed=options.seed,
        length=options.length,
        device=options.device,
        dtype=options.dtype,
        **proposer_fields(options),
    )


def verified(pair, settings: Settings, options: argparse.Namespace) -> tuple[dict[str, Any], Kept]:
    """Draw and test in every mode that was asked for: the report, JSON-ready, and the file to be forgotten when it is safe.

    An interruption says how to go on.
    """
    from specviz.evidence import sources
    from specviz.evidence.saved import Kept
    from specviz.evidence.shards import asked

    name = sources.known(options.decoder)
    settings = sources.under(name, settings)
    out = options.out and options.out.absolute()
    path = options.resume or (out and out.with_name(f"{out.name}.draws"))
    kept = Kept.open(path, asked(name, pair, settings, options.draws, options.seconds))
    try:
        return examined(kept, name, pair, settings, options), kept
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(how_to_go_on(kept)) from stop


def how_to_go_on(kept: Kept) -> str:
    """What an interrupted examination leaves, in words."""
    if kept.path is None:
        return "nothing was kept; with --out DIR or --resume FILE the same command can go on where it stopped"
    return f"all draws but those of the last {kept.age:.0f} s are kept in '{kept.path}'; the same command goes on from there"


def examined(kept: Kept, name: str, pair, settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    """Draw what is not kept yet, test, and report."""
    from specviz.evidence import sources
    from specviz.evidence.experiment import Plan, answer
    from specviz.evidence.report import report
    from specviz.evidence.shards import draw_all

    ids = pair.encode(settings.prompt)
    target, draft = pair.open(settings)
    alone = sources.reference(pair, settings, ids)
    answers = []
    for mode in sources.modes(name, options.mode, settings):
        progress = Progress(f"{name}, {mode}: drawing")
        samples = draw_all(kept, name, mode, pair, settings, ids, options.draws, options.seconds, progress)
        planned = Plan.fitting if answers else Plan.of  # beside shared laws the engine sees what its draws can
        plan = planned(len(samples), samples.tokens.shape[1], options.tv)
        reading = Progress(f"{name}, {mode}: reading")
        found = answer(plan, target, draft, ids, samples, mode, pair.stops, alone, reading)
        answers.append(replace(found, near=sources.near(name, pair, settings, ids, found.partition, len(samples))))
    exact = sources.analytic_tv(name, pair, settings, ids) if options.mode != "shared-laws" else None
    return report(name, answers, pair, settings, exact)
