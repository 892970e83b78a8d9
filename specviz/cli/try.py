"""``try``: a first look at a pair in about two minutes. Fits, exact, pays, what would pay more, and lines for servers."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.cli.common.command_options import (
    add_declared,
    add_sampling_options,
    add_seed_option,
    add_setting,
)
from specviz.cli.common.output import NO_VERDICT, NOTHING_TESTED, add_format_option, wrap_sentences
from specviz.cli.common.progress import Progress
from specviz.decoding.method_checks import refuse_unread_cuts
from specviz.errors import SettingsError
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import PairPlaces, check_place, format_options
from specviz.proposers.registry import PROPOSERS
from specviz.settings import DEFAULTS, SAMPLING_FIELDS, Settings
from specviz.speed.records.estimate import describe_interval
from specviz.statistics.finding import format_bytes

if TYPE_CHECKING:
    from specviz.speed.prediction.preflight import Preflight
    from specviz.speed.records.assessment import Assessment, MethodSpeed

NOT_READY = REJECTED = 1  # exit codes
NOT_TIMED = 8
LABEL = 9  # columns of the questions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from specviz.speed.records.assessment import AssessmentEffort

    add, what = parser.add_argument, "folder, GGUF file or hub name"
    pairs = f"{what} of the target, or the name of a pair that comes with the project (default: {DEFAULTS.pair})"
    add("target", nargs="?", default=DEFAULTS.pair, metavar="TARGET", help=pairs)
    add("draft", nargs="?", metavar="DRAFT", help=f"{what} of the draft; without it, methods that need no draft model are tried")
    for name in ("device", "dtype"):
        add_setting(add, name)
    add_sampling_options(parser)
    text = "a text like those that will be written, UTF-8 (default: one that comes with the project)"
    add("--text", type=Path, dest="text_file", metavar="FILE", help=text)
    add_setting(add, "prompt", help="text that the samples continue", shown="one that comes with the project")
    add_seed_option(parser)
    add_declared(add, AssessmentEffort, "seconds")
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    from specviz.cli.plan import read_text_file

    chosen = {name: getattr(options, name) for name in (*SAMPLING_FIELDS, "prompt", "seed", "device", "dtype")}
    settings = Settings(pair=name_pair(options.target, options.draft), **chosen)
    refuse_unread_cuts(settings)
    text = read_text_file(options.text_file) if options.text_file else ""
    from specviz.speed.records.assessment import Assessment

    found = Assessment(settings)
    printed: list[str] = []

    def show(now: Assessment) -> None:
        nonlocal found
        found = now
        if options.format == "text":
            sections = format_assessment(now)
            for section in sections[len(printed) :]:
                print(section, flush=True)
            printed[:] = sections

    try:
        progress = Progress("try")
        found = replace(found, preflight=check_models(settings, progress))
        show(found)
        if found.preflight is not None and found.preflight.ready:
            show(look_at_pair(found, text, options, progress, show))
            if options.format == "text":
                print(format_server_lines(found))
    except KeyboardInterrupt as stop:
        if options.format == "json":
            print(json.dumps(found.to_record(), indent=1, allow_nan=False))
        loaded = found.preflight is not None and found.preflight.ready
        little = "; too few samples were drawn to test" if loaded and found.report is None else ""
        raise KeyboardInterrupt(f"what was found until then is above{little}") from stop
    if options.format == "json":
        print(json.dumps(found.to_record(), indent=1, allow_nan=False))
    return choose_exit_code(found)


def name_pair(target: str, draft: str | None) -> str:
    """The name of the pair; of a target alone, that of the target with itself. Raises SettingsError."""
    if target in PAIRS:
        if draft is not None:
            raise SettingsError("draft", draft, f"left out with {target}, a pair that brings its own")
        return target
    for role, place in (("target", target), ("draft", target if draft is None else draft)):
        check_place(role, place)
    return PairPlaces(target, target if draft is None else draft).name


def check_models(settings: Settings, progress: Progress) -> Preflight:
    """Whether the models fit, before their weights are read."""
    from specviz.models.pairs.names import parse_pair_name
    from specviz.speed.prediction.preflight import check_pair

    places = PAIRS.get(settings.pair) or parse_pair_name(settings.pair)
    assert places is not None, "the name is that of the catalog or of two places"
    return check_pair(
        str(places.target), str(places.draft), settings.device, settings.dtype, probe=False,
        on_progress=lambda share, doing="": progress(0.0, doing),
    )  # fmt: skip


def look_at_pair(
    assessment: Assessment, text: str, options: argparse.Namespace, progress: Progress, show: Callable[[Assessment], None]
) -> Assessment:
    """Load the pair and look at it."""
    from specviz.cli.common.command_options import load_models
    from specviz.interface import Pair

    settings = assessment.settings
    pair = Pair(load_models(settings), settings)
    name = options.text_file.name if options.text_file else ""
    return pair.assess(
        text,
        settings.prompt,
        settings,
        seconds=options.seconds,
        name=name,
        on_progress=progress,
        show=show,
        preflight=assessment.preflight,
    )


def choose_exit_code(assessment: Assessment) -> int:
    """0 where all is answered; see assets/commands.toml."""
    if assessment.preflight is None or not assessment.preflight.ready:
        return NOT_READY
    verdict = assessment.report["verdict"] if assessment.report else "too few samples"
    if verdict != "consistent":
        return {"rejected": REJECTED, "nothing tested": NOTHING_TESTED}.get(verdict, NO_VERDICT)
    return NOT_TIMED if assessment.plan is None or assessment.plan.verdict == "no verdict" else 0


def format_assessment(assessment: Assessment) -> list[str]:
    """A section for each question that has an answer, in their order."""
    sections = []
    if assessment.preflight is not None:
        sections.append(format_fit(assessment.preflight))
    if assessment.report is not None:
        sections.append(format_exactness(assessment))
    if assessment.plan is not None:
        sections.append(format_speed(assessment))
    if assessment.methods:
        sections.append(format_methods(assessment))
    return sections


def format_fit(preflight: Preflight) -> str:
    """Whether the pair fits this machine, and what is in the way."""
    from specviz.speed.prediction.preflight import SWAPPED

    needed = f"{format_bytes(preflight.memory_bytes)} of memory needed, " if preflight.memory_bytes is not None else ""
    memory = f"{needed}{format_bytes(preflight.free_bytes)} free on this {preflight.device}, in {preflight.dtype}."
    if preflight.memory_bytes is None:  # something else is in the way
        first, *others = [*preflight.all_problems, *preflight.all_notes]
        return _format_section("fits", [f"No: {first}", *others])
    if preflight.is_swapped and preflight.ready:
        return _format_section("fits", [f"Yes, but: {SWAPPED}", memory, *preflight.notes])
    answer = "Yes" if preflight.ready else "No"
    return _format_section("fits", [f"{answer}: {memory}", *preflight.all_notes, *preflight.all_problems])


def format_exactness(assessment: Assessment) -> str:
    """The verdict on the samples, what they exercised, and what was computed without samples."""
    from specviz.decoding.samples import Coverage
    from specviz.evidence.testing.results import describe_coverage

    report = assessment.report
    assert report is not None, "it was sampled"
    settings, answer = report["settings"], report["answers"][0]
    how = f"after “{settings['prompt']}”, temperature {settings['temperature']:g}, gamma {settings['gamma']}"
    lines = [report["sentence"], f"Sampled through the decoder {how}.", *filter(None, [report["note"]])]
    if answer.get("exercised"):
        drafted = max(0, settings["max_new_tokens"] - 1)
        most = (
            f" A sample has {settings['max_new_tokens']} tokens, so it drafts at most {drafted}."
            if drafted < settings["gamma"]
            else ""
        )
        lines.append(f"Exercised: {describe_coverage(Coverage.from_record(answer['exercised']))}.{most}")
    if report["analytic_tv"] is not None:
        lines.append(
            f"Computed without samples: the decoder with its caches lies within TV {report['analytic_tv']:.1e} "
            "of an uncached pass (float32 rounding: about 1e-6)."
        )
    return _format_section(
        "exact",
        lines,
        f"Smaller differences: specviz verify {_format_pair(assessment)}--prompt {shlex.quote(settings['prompt'])} --out evidence",
    )


def format_speed(assessment: Assessment) -> str:
    """The first answer of a plan."""
    plan = assessment.plan
    assert plan is not None, "it was planned"
    runs_model = PROPOSERS.read_argument(plan.settings.proposer, "runs_model", True)
    drafted = "" if runs_model else f"With {plan.settings.proposer}, which needs no draft model: "
    source = f"from {plan.openings} texts of {plan.length} tokens; in brackets the middle 95% of resamples."
    if plan.verdict != "no verdict":
        lines = [f"{drafted}{plan.in_words}", f"A first answer, {source}"]
        return _format_section("pays", lines, f"A better one, on your texts: specviz plan {_format_pair(assessment)}--text FILE")
    most = max(plan.rows, key=lambda row: row.tokens.value)
    lines = [
        f"{drafted}{plan.in_words}",
        f"Without the clock: a target pass writes {most.tokens.format()} tokens at gamma {most.gamma}, {source}",
    ]
    command = (
        f"These counts, which a busy machine does not change: specviz plan {_format_pair(assessment)}--text FILE --tokens-only"
    )
    return _format_section("pays", lines, command)


def format_methods(assessment: Assessment) -> str:
    """Methods side by side, with the advice that follows."""
    timed = [one.speedup for one in assessment.methods if one.speedup is not None]
    lines = [assessment.advice] if assessment.advice else []
    names = {one.key: f"{one.name} ({one.proposer})" for one in assessment.methods}
    wide = max(map(len, names.values()))
    lines += [f"{names[one.key]:<{wide}}  {_describe_method(one)}" for one in assessment.methods]
    if timed:
        lines.append(f"Times the target alone; in brackets the {describe_interval(timed[0].n)}.")
    plain = replace(assessment, settings=replace(assessment.settings, proposer=DEFAULTS.proposer))
    first = assessment.fastest.proposer if assessment.fastest is not None else DEFAULTS.proposer
    return _format_section("methods", lines, f"The first one for longer: specviz bench {_format_pair(plain)}--proposer {first}")


def _describe_method(method: MethodSpeed) -> str:
    if method.speedup is None:
        return f"not here: {method.reason}"
    return f"{method.speedup.format()}, {method.tokens_per_pass:.2f} tokens per target pass at gamma {method.gamma}"


def format_server_lines(assessment: Assessment) -> str:
    """How servers are started with the best method and draft length that they have."""
    if assessment.served is None or not assessment.server_commands:
        return ""
    settings, gamma = assessment.served
    copied = "copied text and " if settings.proposer == "ngram" else ""
    doubt = assessment.doubt
    lines = [
        f"To start servers with {copied}gamma {gamma}{f' ({doubt})' if doubt else ''}. specviz pays measures on the server whether it pays there:"
    ]
    for one in assessment.server_commands:
        lines += ["", f"# {one.server}. {one.note}", one.text]
    return "\n".join(lines)


def _format_pair(assessment: Assessment) -> str:
    options = [] if assessment.settings.pair == DEFAULTS.pair else format_options(assessment.settings.pair)
    proposer = [] if assessment.settings.proposer == DEFAULTS.proposer else ["--proposer", assessment.settings.proposer]
    return "".join(f"{word} " for word in map(shlex.quote, [*options, *proposer]))


def _format_section(label: str, sentences: Iterable[str], command: str = "") -> str:
    """Sentences beside their label, a paragraph each. command: a last line that is not broken, so that it can be copied."""
    lines = [line for one in sentences for line in wrap_sentences(one, LABEL)]
    lines += [command] if command else []
    return "\n".join(f"{label if not number else '':<{LABEL}}{line}" for number, line in enumerate(lines)) + "\n"
