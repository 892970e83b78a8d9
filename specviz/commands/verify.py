"""``verify``: do a decoder's samples follow the target's distribution? Draws samples, tests them, and says what the tests can detect."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.commands import matrix
from specviz.commands.options import (
    pair_name,
    pair_options,
    proposer_fields,
    proposer_options,
    refuse_proposer,
    refuse_unknown,
    sampling_options,
)
from specviz.commands.progress import Progress
from specviz.errors import SettingsError
from specviz.settings import Settings

if TYPE_CHECKING:
    from specviz.evidence.saved import SavedSamples

LENGTHS, SAMPLES = (1, 4), (1, 20_000_000)
MODES = ("both", "shared-distributions", "engine")
DEFAULT_SAMPLES = 200_000
CODES = {"consistent": 0, "rejected": 1, "too few draws": 3}
TV = 0.01  # default of --tv
BUDGET = 60.0  # seconds for samples from the engine, and from decoders that draw one text at a time
EPILOG = (
    "Exit codes: 0 consistent with the target's distribution; 1 rejected; 2 bad arguments or input; "
    "3 too few samples to detect --tv."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    pair_options(parser)
    sampling_options(parser)
    proposer_options(parser)
    parser.add_argument(
        "--decoder",
        default="speculative",
        metavar="NAME",
        help="what to test: speculative (default), target (target-only sampling), assisted (transformers' assisted generation), or "
        "the id of a published mistake, such as R5, which brings its own settings",
    )
    parser.add_argument("--prompt", default="", help="text to continue (default: empty, only the start token)")
    parser.add_argument(
        "--length",
        type=int,
        default=3,
        metavar="N",
        help="tokens per sample, 1 to 4; their joint distribution is tested (default: 3)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=DEFAULT_SAMPLES,
        metavar="N",
        help=f"number of samples on shared distributions, and most samples from the engine (default: {DEFAULT_SAMPLES})",
    )
    parser.add_argument("--seed", type=int, default=7, help="seed of all random numbers (default: 7)")
    parser.add_argument(
        "--mode",
        type=lambda text: text.replace(" ", "-"),
        choices=MODES,
        default="both",
        help="shared-distributions (samples share each computed distribution), engine (the decoder with its caches), or both (default)",
    )
    parser.add_argument("--tv", type=float, help="total variation that the tests must detect (default: 0.01; with --all 0.02)")
    matrix.arguments(parser)
    parser.add_argument(
        "--seconds", type=float, default=BUDGET, metavar="S", help="time for samples from the engine, in seconds (default: 60)"
    )
    parser.add_argument(
        "--sample-file",
        type=Path,
        metavar="FILE",
        help="draw nothing; test the samples of any server from a JSON lines file (docs/checking-your-server.md)",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE2",
        help="compare --sample-file with a second sample file; needs no weights",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default), or the report as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="also write a certificate, tables and figures to DIR, and a zip of them"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="save the samples to FILE every few seconds; the same command resumes from it (default with --out: DIR.draws)",
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
    settings, saved = settings_of(options), None
    if options.sample_file or options.against:
        from specviz.commands.samples_files import filed

        record = filed(settings, options)
    else:
        from specviz.models.pairs.loading import load_pair

        refuse_unknown(settings)
        record, saved = verified(load_pair(settings.pair, settings.device, settings.dtype), settings, options)
    if options.out:
        from specviz.export.folder import write
        from specviz.export.report import package

        write(options.out, package(record).files())
    if saved is not None:
        saved.forget()
    from specviz.commands.verdicts import as_text

    print(json.dumps(record, indent=1, allow_nan=False) if options.format == "json" else as_text(record))
    return CODES[record["verdict"]]


def settings_of(options: argparse.Namespace) -> Settings:
    """Settings of the options. Numbers out of range raise SettingsError before anything is loaded."""
    for name, value, (low, high) in (("length", options.length, LENGTHS), ("samples", options.samples, SAMPLES)):
        if not low <= value <= high:
            raise SettingsError(name, value, f"a whole number from {low} to {high:,}")
    if not 0.0 < options.tv <= 1.0:
        raise SettingsError("tv", options.tv, "above 0 and at most 1")
    if not options.seconds > 0:
        raise SettingsError("seconds", options.seconds, "above 0")
    if options.decoder.lower() != "speculative":
        refuse_proposer(options, f"--decoder {options.decoder}")
    if options.sample_file or options.against:
        for name, usual in (("resume", None), ("decoder", "speculative"), ("samples", DEFAULT_SAMPLES), ("mode", "both")):
            if (value := getattr(options, name)) != usual:
                raise SettingsError(name, str(value), "left out with --sample-file: nothing is drawn")
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


def verified(pair, settings: Settings, options: argparse.Namespace) -> tuple[dict[str, Any], SavedSamples]:
    """Draw and test in every requested mode. Returns the report, JSON-ready, and the saved samples, to be deleted afterwards.

    An interrupt raises KeyboardInterrupt with a sentence on how to resume.
    """
    from specviz.evidence import sources
    from specviz.evidence.saved import SavedSamples
    from specviz.evidence.shards import asked

    name = sources.known(options.decoder)
    settings = sources.under(name, settings)
    out = options.out and options.out.absolute()
    path = options.resume or (out and out.with_name(f"{out.name}.draws"))
    saved = SavedSamples.open(path, asked(name, pair, settings, options.samples, options.seconds))
    try:
        return sampled_and_tested(saved, name, pair, settings, options), saved
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(how_to_resume(saved)) from stop


def how_to_resume(saved: SavedSamples) -> str:
    """What an interrupted verification leaves, in words."""
    if saved.path is None:
        return "nothing was saved; with --out DIR or --resume FILE the same command can resume where it stopped"
    return f"all samples but those of the last {saved.age:.0f} s are saved in '{saved.path}'; the same command resumes from there"


def sampled_and_tested(saved: SavedSamples, name: str, pair, settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    """Draw the samples that are not saved yet, test them, and report."""
    from specviz.evidence import sources
    from specviz.evidence.experiment import Plan, answer
    from specviz.evidence.report import report
    from specviz.evidence.shards import draw_all

    ids = pair.encode(settings.prompt)
    target, draft = pair.open(settings)
    reference = sources.reference(pair, settings, ids)
    answers = []
    for mode in sources.modes(name, options.mode, settings):
        progress = Progress(f"{name}, {mode}: drawing")
        samples = draw_all(saved, name, mode, pair, settings, ids, options.samples, options.seconds, progress)
        planned = Plan.fitting if answers else Plan.of  # after shared distributions, the engine detects what its samples allow
        plan = planned(len(samples), samples.tokens.shape[1], options.tv)
        testing = Progress(f"{name}, {mode}: testing")
        found = answer(plan, target, draft, ids, samples, mode, pair.eos_token_ids, reference, testing)
        answers.append(replace(found, near=sources.near(name, pair, settings, ids, found.partition, len(samples))))
    exact = sources.analytic_tv(name, pair, settings, ids) if options.mode != "shared-distributions" else None
    return report(name, answers, pair, settings, exact)
