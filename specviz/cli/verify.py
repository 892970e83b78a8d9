"""``verify``: do a decoder's samples follow the target's distribution? Draws samples, tests them, and reports what the tests can detect."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.cli.common.command_options import (
    add_cluster_option,
    add_declared,
    add_decoding_options,
    add_drafting_options,
    add_pair_options,
    add_seed_option,
    add_setting,
    check_cluster,
    describe_drafting,
    load_models,
    read_settings,
)
from specviz.cli.common.output import NO_VERDICT, NOTHING_TESTED, add_report_options, print_record, write_report
from specviz.cli.common.progress import Progress
from specviz.decoding.method_checks import check_methods
from specviz.errors import SettingsError
from specviz.evidence.sampling.effort import DEFAULT_SAMPLING, SAMPLE_TOKENS, SamplingEffort, refuse_unused_sampling
from specviz.models.pairs.names import describe_draftable
from specviz.settings import Settings
from specviz.statistics.finding import tested_nothing

if TYPE_CHECKING:
    from specviz.evidence.sampling.saved_samples import SavedSamples
    from specviz.models.pairs.loading import LoadedPair

EXIT_CODES = {"consistent": 0, "rejected": 1, "too few samples": NO_VERDICT, "nothing tested": NOTHING_TESTED}
PLAIN_VERDICTS = {  # the first line of a report
    "consistent": "Consistent: no difference from {other} was found.",
    "rejected": "Rejected: the samples do not follow {other}.",
    "too few samples": "No verdict: there are too few samples.",
    "nothing tested": "Nothing was tested: no draft token was proposed.",
}
TESTING_REST = "testing what was drawn (Ctrl-C again leaves it)"
TESTS_WITH_NOTES = ("chi-square", "permutation of two files")  # tests whose notes are printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_pair_options(parser)
    add_decoding_options(parser)
    add_drafting_options(parser)
    add(
        "--decoder",
        default="speculative",
        metavar="NAME",
        help="what to test: speculative (default), target (target-only sampling), assisted (transformers' assisted generation), or "
        "the id of a published mistake, such as R5, which brings its own settings",
    )
    add_setting(add, "prompt")
    add_setting(add, SAMPLE_TOKENS)
    add_declared(add, SamplingEffort, "samples")
    add_seed_option(parser)
    add_declared(add, SamplingEffort, "mode", "min_tv", "seconds")
    sample_file = "draw nothing; test the samples of any server from a JSON lines file (docs/how-to/checking-your-server.md)"
    add("--sample-file", type=Path, metavar="FILE", help=sample_file)
    add_cluster_option(parser)
    add_report_options(parser)
    resume = "save the samples to FILE every few seconds; the same command resumes from it (default with --out: DIR.draws)"
    add("--resume", type=Path, metavar="FILE", help=resume)


def run(options: argparse.Namespace) -> int:
    settings, saved = read_verify_settings(options), None
    if options.sample_file:
        record = report_sample_file(settings, options)
    else:
        check_methods(settings)
        record, saved = verify(load_models(settings), settings, options)
    write_report(record, options)
    if saved is not None:
        saved.delete()
    print_record(record, options, format_report)
    return EXIT_CODES[record["verdict"]]


def read_verify_settings(options: argparse.Namespace) -> Settings:
    """Settings of the options. Options that do not go together raise SettingsError before anything is loaded."""
    settings = read_settings(options)
    effort = SamplingEffort(options.mode, options.samples, options.min_tv, options.seconds)
    refuse_unused_sampling(options.decoder, settings, effort)
    if options.sample_file:
        usual = {"resume": None, "cluster": None, "decoder": "speculative", "samples": DEFAULT_SAMPLING.samples, "mode": "both",
                 "seconds": DEFAULT_SAMPLING.seconds}  # fmt: skip
        for name, default in usual.items():
            if (value := getattr(options, name)) != default:
                raise SettingsError(name, str(value), "left out with --sample-file: nothing is drawn")
    check_cluster(options)
    if options.out:
        from specviz.export.folder import check_writable

        check_writable(options.out)
    return settings


def report_sample_file(settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    """The report of one sample file against the target's distribution. The prompt comes from the file."""
    from specviz.evidence.sampling.sample_files import read_samples

    file = read_samples(options.sample_file)
    if settings.prompt not in ("", file.prompt):
        sentence = f"--prompt {settings.prompt[:80]!r} is not the prompt of the file, {file.prompt[:80]!r}. Leave it out, or give that one."
        raise SettingsError("prompt", settings.prompt, f"left out, or the prompt of the file, {file.prompt[:80]!r}", sentence)
    from specviz.evidence.sampling.sample_files import report_against_weights
    from specviz.evidence.testing.hypothesis_tests import TestPlan

    plan, pair = partial(TestPlan.for_distance, tv=options.min_tv), load_models(settings)
    return report_against_weights(file, replace(settings, prompt=file.prompt), plan, pair, Progress(f"{file.name}: testing"))


def verify(pair: LoadedPair, settings: Settings, options: argparse.Namespace) -> tuple[dict[str, Any], SavedSamples]:
    """Draw and test in every requested mode. Returns the report, JSON-ready, and the saved samples, to be deleted afterward.

    An interrupt prints the report of what was drawn, and raises KeyboardInterrupt with a sentence on how to resume.
    """
    from specviz.evidence.decoder import build_decoder, resolve_name, with_mistake
    from specviz.evidence.sampling.sampling_plan import SamplingPlan
    from specviz.evidence.sampling.saved_samples import SavedSamples
    from specviz.evidence.sampling.session import Session, describe_run
    from specviz.jobs.remote import open_pool

    name = resolve_name(options.decoder)
    settings = with_mistake(name, settings)
    path = options.resume or (options.out and options.out.absolute().with_name(f"{options.out.absolute().name}.draws"))
    saved = SavedSamples.open(path, describe_run(name, pair, settings, options.samples, options.seconds, options.min_tv))
    plan, session = SamplingPlan(options.mode, options.samples, options.min_tv, options.seconds), None
    try:
        with open_pool(options.cluster, pair.target.device.type) as executor:
            session = Session(build_decoder(name, pair, settings), plan, saved, executor)
            return session.run(Progress), saved
    except KeyboardInterrupt as stop:
        if session is not None and (record := session.report_interrupted(Progress(f"{name}: {TESTING_REST}"))) is not None:
            print_record(record, options, format_report)
        raise KeyboardInterrupt(describe_resume(saved)) from stop


def describe_resume(saved: SavedSamples) -> str:
    """What an interrupted verification leaves, in words."""
    if saved.path is None:
        return "nothing was saved; with --out DIR or --resume FILE the same command can resume where it stopped"
    return f"all samples but those of the last {saved.age:.0f} s are saved in '{saved.path}'; the same command resumes from there"


def format_report(record: dict[str, Any]) -> str:
    """The verdict in plain words, then that of each mode, then every test with the total variation that it can detect."""
    from specviz.evidence.decoder import explain_engine_only

    other = "the distribution of the other file" if len(record["files"]) == 2 else "the target's distribution"
    lines = [PLAIN_VERDICTS[record["verdict"]].format(other=other), ""]
    if record["decoder"] == "speculative":
        settings = Settings.from_record(record["settings"])
        lines += describe_drafting(settings).splitlines()
        if why := explain_engine_only("speculative", settings):
            lines.append(f"sampled only through the engine: {why}")
    lines += filter(None, (describe_draftable(record["models"]),))
    for one in record["answers"]:
        first, here = record["answers"][0]["plan"]["tv"], one["plan"]["tv"]
        fewer = f" (This mode has fewer samples, so it was only asked to detect {here:.2g}.)" if here > first else ""
        lines.append(f"{one['mode']}: {one['sentence']}{fewer}")
    if record["note"]:
        lines.append(record["note"])
    if record["analytic_tv"] is not None:
        lines.append(
            "computed without samples: at each prefix the distribution of the decoder with its caches lies within TV "
            f"{record['analytic_tv']:.1e} of an uncached pass of the target (float32 rounding: about 1e-6)"
        )
    for one in record["answers"]:
        lines += ["", *_format_distance(one)]
        for test in one["tests"]:
            if tested_nothing(test):
                lines.append(f"  {test['name']:<45} tested nothing. {test['note']}")
                continue
            seen = "" if test["detectable_tv"] is None else f"detects {test['detectable_tv']:.2g}"
            lines.append(f"  {test['name']:<45} p {test['p_value']:<9.3g} corrected {test['adjusted_p']:<9.3g} {seen}")
        lines += [
            f"  {note}"
            for note in dict.fromkeys(
                test["note"] for test in one["tests"] if test["name"] in TESTS_WITH_NOTES and not tested_nothing(test)
            )
            if note
        ]
    return "\n".join(lines)


def _format_distance(answer: dict[str, Any]) -> list[str]:
    from specviz.decoding.samples import Coverage
    from specviz.evidence.testing.results import describe_coverage
    from specviz.statistics.finding import format_count

    exercised = (
        [f"  exercised: {describe_coverage(Coverage.from_record(answer['exercised']))}"] if answer.get("exercised") else []
    )
    if not answer["cells"]:
        return [f"{answer['mode']}, {answer['n']:,} samples", *exercised]
    band, whole = answer["tv_null_band"], []
    if (count := answer.get("whole_samples")) is not None:
        whole = [f"  {count:,} samples were drawn to their end, the others until their cell was known (the vocabulary is large)"]
    return [
        f"{answer['mode']}, {answer['n']:,} samples in {format_count(len(answer['cells']), 'cell')}; {answer['pooled_mass']:.0%} of the mass lies in cells "
        "of several texts",
        f"  total variation on the cells {answer['tv']:.4f}; sampling noise of an exact decoder: median {band['median']:.4f}, "
        f"above {band['upper']:.4f} once in {1 / (1 - band['level']):.0f}",
        *whole,
        *exercised,
    ]
