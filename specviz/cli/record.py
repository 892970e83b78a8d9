"""``record WHAT``: measure on this machine what a page shows first, and store it, so that the page opens without torch or weights."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from specviz.cli.common.command_options import (
    NO_LIMIT,
    add_count,
    add_decoding_options,
    add_drafting_options,
    add_pair_options,
    add_run_options,
    load_models,
    read_run_settings,
)
from specviz.cli.common.output import NO_VERDICT
from specviz.cli.common.progress import Progress, log_line
from specviz.decoding.method_checks import check_methods, refuse_drafting
from specviz.errors import SettingsError
from specviz.proposers.trees.node_count import choose_node_count
from specviz.records import ASSETS, Schema, read_text
from specviz.settings import FASTEST_GAMMA, Setting, Settings, build_shared_settings
from specviz.speed.records.passage import TimedRound
from specviz.trace import SCHEMA, Trace

PROMPT = "Once upon a time there lived an old"  # of the methods and the passage, without --prompt
LATER_ROUNDS = 2  # opening: after the round that the page opens with
SURVEY_TOKENS = 96  # tokens of each other text of the passage
OPENING_TOKENS, CONTINUATION_TOKENS = 48, 64  # plans, batches, setups: tokens before and after each place of a text
PLAN_PROBES = 15  # plans: runs of the cost probes
BATCH_PAIRS = ("storybook", "storybook-plain")  # batches: of one shape, so that one set of passes is true of both
SETUPS_BOOK = ASSETS / "texts" / "dorothy-and-the-wizard-in-oz.txt"  # setups: held out from training
TIMED_TOKENS, GREEDY_TOKENS = 96, 96  # setups: tokens of a timed text and of a greedy one
SAMPLE_TOKENS = 2  # samples: tokens of each
TREE_CURVES = {"tree": "draft's tree", "medusa": "heads' tree"}  # proposer -> its name in a measured curve
DIVERGENCE_TEXTS = 8  # pair: texts along which distributions are compared
TREE_TOKENS = 96  # trees: tokens after each prompt of the bench
COST_MODEL = ASSETS / "costs" / "this-machine.json"  # costs: the pages and ``plan --costs this-machine`` find it there


class RecordedText(NamedTuple):
    """A record as JSON, what it holds in a few words, and the exit code."""

    text: str
    summary: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class Recording:
    """What a name on the command line records, with the defaults of its options. least: where more is needed than one."""

    summary: str
    record: Callable[[Settings, argparse.Namespace, Progress], RecordedText]
    gamma: int = Settings().gamma
    length: int = Settings().max_new_tokens
    continuations: int = 24
    samples: int = 2000
    least: dict[str, int] = field(default_factory=dict)


def record_opening(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Record the first rounds of a run with their distributions: without a prompt those of the recorded race, with its times."""
    from specviz.decoding.run import record_run as decode_run
    from specviz.models.pairs.fingerprint import hash_pair
    from specviz.web.front.state import load_recorded_race
    from specviz.web.one_round.opening_run import choose_opening_round, copy_times

    race = None if settings.prompt else load_recorded_race()
    if race is not None:
        settings = replace(race.settings, pair=settings.pair, device=settings.device, dtype=settings.dtype)
    pair = load_models(settings)
    decode_run(pair, settings, rounds=2, bars=0)  # first passes are slow; the times shown are those of a warm pair
    if race is None:
        trace = decode_run(pair, settings, rounds=options.rounds)
    else:
        shown = choose_opening_round(decode_run(pair, settings).rounds)
        trace = copy_times(decode_run(pair, settings, rounds=max(options.rounds, shown + 1 + LATER_ROUNDS)), race.speculative)
    trace = replace(trace, models=trace.models | hash_pair(pair))  # an export of it names them without the weights at hand
    opens = f"opens with round {choose_opening_round(trace.rounds) + 1} of {len(trace.rounds)}"
    return RecordedText(
        trace.to_json(), f"{opens}, {len(trace.output_ids)} tokens{'' if race is None else ', of the recorded race'}"
    )


def record_methods(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Every row under each of the page's distributions. Without a prompt all are timed on those of ``bench``. Temperature and cuts are the page's own."""
    from specviz.speed.benchmarks.drafting_methods import compare_methods
    from specviz.speed.measurement.timed_decoding import PROMPTS
    from specviz.speed.records.methods import DISTRIBUTIONS, choose_distribution, dump_comparisons

    base, pair, found = replace(settings, prompt=settings.prompt or PROMPT), load_models(settings), {}
    prompts = () if settings.prompt else tuple(PROMPTS.values())
    for number, choice in enumerate(DISTRIBUTIONS):
        asked, on_progress = choose_distribution(base, choice), progress.make_part(number, len(DISTRIBUTIONS))
        found[choice] = compare_methods(pair, asked, options.runs, options.samples, on_progress, prompts=prompts)
    rows = sum(not row.reason for one in found.values() for row in one.rows)
    return RecordedText(dump_comparisons(found), f"{len(found)} distributions, {rows} rows")


def record_passage(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """A text with and without speculation under each of the page's distributions, and other texts read beside it."""
    from specviz.models.pairs.fingerprint import hash_pair
    from specviz.speed.benchmarks.passage import survey_texts, write_passage
    from specviz.speed.records.passage import DISTRIBUTIONS, dump_passages
    from specviz.web.whole_text.words import describe_speed

    base, pair, found = replace(settings, prompt=settings.prompt or PROMPT), load_models(settings), {}
    if options.seeds > 1:
        base = choose_fit_seed(pair, base, options.seeds, progress)
    for number, (name, probs) in enumerate(DISTRIBUTIONS.items()):
        writing, reading = (progress.make_part(2 * number + half, 2 * len(DISTRIBUTIONS)) for half in (0, 1))
        one = write_passage(pair, replace(base, **probs), options.runs, writing)
        texts = survey_texts(pair, one.settings, options.continuations, SURVEY_TOKENS, reading)
        found[name] = replace(one, survey=texts, models={**one.models, **hash_pair(pair)})
        log_line(f"{name}: {describe_speed(one)}")
    return RecordedText(dump_passages(found), f"{len(found)} distributions, {base.max_new_tokens} tokens each way")


def choose_fit_seed(pair: Any, settings: Settings, seeds: int, progress: Progress) -> Settings:
    """The settings with the first seed whose texts have no unfit word. Raises SettingsError if all have."""
    from specviz.speed.benchmarks.passage import stream_rounds
    from specviz.speed.records.passage import DISTRIBUTIONS, find_unfit_words

    for n in range(seeds):
        progress(0.0, f"seed {settings.seed + n}")
        tried = replace(settings, seed=settings.seed + n)
        if not any(
            find_unfit_words(pair.decode(list(tokens)))
            for probs in DISTRIBUTIONS.values()
            for tokens in collect_texts(stream_rounds(pair, replace(tried, **probs))).values()
        ):
            log_line(f"seed {tried.seed}: the first without an unfit word")
            return tried
    raise SettingsError("seeds", seeds, "more of them: every text has a word of assets/texts/unfit_words.toml")


def collect_texts(rounds: Iterable[TimedRound]) -> dict[str, list[int]]:
    """The tokens that each way wrote."""
    found: dict[str, list[int]] = {}
    for one in rounds:
        found.setdefault(one.lane, []).extend(one.round.committed)
    return found


def record_plans(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Plan and measure every draft at every temperature of the page, on its text."""
    from specviz.speed.prediction.plan_effort import PlanEffort
    from specviz.speed.prediction.planning import make_plan
    from specviz.speed.records.plan import PLAN_CHOICES, PLAN_GAMMAS, PLAN_TEXT, dump_plans, load_plan_text

    text, found = load_plan_text(), {}
    effort = PlanEffort(
        options.continuations, OPENING_TOKENS, 0 if options.tokens_only else PLAN_PROBES, check=True, runs=options.runs
    )
    for number, choice in enumerate(PLAN_CHOICES):
        asked = replace(choice.build_settings(settings), gamma=PLAN_GAMMAS[-1], max_new_tokens=CONTINUATION_TOKENS)
        on_progress = progress.make_part(number, len(PLAN_CHOICES))
        found[choice.key] = make_plan(load_models(asked), asked, text, PLAN_GAMMAS, effort, f"{PLAN_TEXT}.txt", on_progress)
        log_line(f"{choice.key}: {found[choice.key].in_words}")
    return RecordedText(dump_plans(found), f"{len(found)} plans")


def record_batches(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Time passes over more and more rows, and count the rounds of the page's drafts at its temperatures."""
    from specviz.speed.prediction.batches import measure_batches
    from specviz.speed.records.plan import PLAN_TEMPERATURES, PlanChoice, load_plan_text

    choices = [PlanChoice(draft, temperature) for draft in BATCH_PAIRS for temperature in sorted(PLAN_TEMPERATURES, reverse=True)]
    asked = {choice.key: replace(choice.build_settings(settings), max_new_tokens=CONTINUATION_TOKENS) for choice in choices}
    pairs = {key: (load_models(one), one) for key, one in asked.items()}
    text = load_plan_text()
    found = measure_batches(pairs, text, options.continuations, OPENING_TOKENS, 3 * options.runs, on_progress=progress)
    print(found.describe(choices[0].key))
    summary = f"{len(found.rows)} numbers of texts, {len(found.gammas)} gammas"
    return RecordedText(found.to_json(), summary, 0 if found.steady else NO_VERDICT)


def record_setups(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Compare the setups at temperature 1 without cuts, on places spread over a held-out book."""
    from specviz.evidence.serving_setups.comparison import SetupEffort, compare_setups
    from specviz.models.pairs.fingerprint import hash_pair
    from specviz.speed.measurement.acceptance import cut_openings

    pair = load_models(settings)
    asked = settings.without_cuts(temperature=1.0, prompt="")
    places = cut_openings(
        pair, SETUPS_BOOK.read_text(encoding="utf-8"), OPENING_TOKENS, CONTINUATION_TOKENS, options.continuations
    )
    effort = SetupEffort(options.positions, options.runs, TIMED_TOKENS, options.continuations, GREEDY_TOKENS)
    found = compare_setups(pair, asked, places, effort, SETUPS_BOOK.name, progress)
    if not found.is_steady:
        log_line(f"The speeds are no verdict: {found.noise_note}")
    text = replace(found, models={**found.models, **hash_pair(pair)}).to_json()
    return RecordedText(text, f"{sum(not row.reason for row in found.rows)} rows, {len(places)} texts")


def record_pair(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Plan the pair on the page's text, or decode it where no plan can count the method; compare the two distributions along texts of the target, and keep one."""
    from specviz.models.pairs.fingerprint import hash_pair
    from specviz.models.pairs.names import hide_folders
    from specviz.speed.benchmarks.decoded_method import measure_method
    from specviz.speed.measurement.acceptance import explain_unplanned
    from specviz.speed.measurement.divergences import measure_divergences
    from specviz.speed.prediction.plan_effort import PlanEffort
    from specviz.speed.prediction.planning import make_plan
    from specviz.speed.records.pair_record import DecodedMethod, PairRecord
    from specviz.speed.records.plan import PLAN_GAMMAS, PLAN_TEXT, SpeedPlan, load_plan_text

    check_methods(settings)
    if settings.proposer == "none":
        raise SettingsError("proposer", "none", "a drafting method: target-only sampling is what it is compared with")
    settings, text, name = choose_node_count(settings), load_plan_text(), f"{PLAN_TEXT}.txt"
    pair, half = load_models(settings), progress.make_part(0, 2)
    source: SpeedPlan | DecodedMethod
    if explain_unplanned(settings):
        timed = not options.tokens_only
        source = measure_method(pair, settings, text, options.continuations, OPENING_TOKENS, options.runs, name, timed, half)
    else:
        effort = PlanEffort(options.continuations, OPENING_TOKENS, 0 if options.tokens_only else PLAN_PROBES)
        source = make_plan(pair, settings, text, PLAN_GAMMAS, effort, name, half)
    named = hide_folders(settings.pair)
    models = {**source.models, "pair": named, **hash_pair(pair)}
    source = replace(source, settings=replace(source.settings, pair=named), models=models)
    divergences, sample = measure_divergences(
        pair, settings, text, min(options.continuations, DIVERGENCE_TEXTS), OPENING_TOKENS, progress
    )
    title = options.title or " + ".join(place.rstrip("/").rsplit("/", 1)[-1] for place in settings.pair.split("|"))
    title = title if settings.proposer == "draft" or options.title else f"{title.split(' + ')[0]}, {settings.proposer}"
    plan, decoded = (source, None) if isinstance(source, SpeedPlan) else (None, source)
    found = PairRecord(title, options.license, plan, divergences, sample, decoded)
    return RecordedText(found.to_json(), source.in_words)


def record_trees(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Measure trees of several sizes as ``bench curves`` does."""
    from specviz.proposers.trees.node_count import NodeCountCurve, NodeCountPoint, format_curve_key
    from specviz.speed.measurement.costs import measure_pass_curves
    from specviz.speed.measurement.machine import describe_machine, format_today

    pair, points = load_models(settings), {}
    found = measure_pass_curves(pair, settings.gamma, TREE_TOKENS, 3 * options.runs, log_line)
    for temperature in (0.0, 1.0):
        for proposer, name in TREE_CURVES.items():
            if budgets := found.budgets.get(f"{name}, temperature {temperature:g}", ()):
                points[format_curve_key(proposer, temperature)] = tuple(
                    NodeCountPoint(b.nodes, b.tokens_per_pass, b.speed) for b in budgets
                )
    best = ", ".join(f"{key}: {max(values, key=lambda point: point.speed).nodes} nodes" for key, values in points.items())
    return RecordedText(NodeCountCurve(points, pair.name, describe_machine(pair), format_today()).to_json(), best)


def record_costs(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Time rounds of the pair in texts of its own, and passes over trees."""
    from specviz.speed.measurement.acceptance import cut_openings
    from specviz.speed.prediction.machine_costs import measure_cost_model
    from specviz.speed.records.plan import load_plan_text

    pair, text = load_models(settings), load_plan_text()
    prompts = [prompt for prompt, _ in cut_openings(pair, text, OPENING_TOKENS, settings.max_new_tokens, options.continuations)]
    found = measure_cost_model(pair, settings, prompts, 3 * options.runs, progress)
    return RecordedText(
        found.to_json(), f"{found.title}: a token {found.target_only:.2f} ms, a draft step {found.find_draft().step:.2f} ms"
    )


def read_opening_settings(settings: Settings) -> Settings:
    """Those that pages share, by the opening run, on the pair and machine of ``settings``."""
    first = Settings.from_record(Trace.from_json(read_text(ASSETS / "traces" / "opening.json", "The opening run")).settings)
    return replace(build_shared_settings(first), pair=settings.pair, device=settings.device, dtype=settings.dtype)


def record_samples(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Samples of the question that Exactness test opens with and of every mistake, under the text of the opening run and the seed that pages share."""
    from specviz.evidence.mistakes.published import REPORTED
    from specviz.evidence.recordings.sample_drawing import record_decoder, record_mistake
    from specviz.evidence.recordings.samples import RecordedSamples
    from specviz.web.mistakes.state import MistakeQuestion
    from specviz.web.mistakes.work import make_specs

    asked = settings if settings.prompt else read_opening_settings(settings)
    pair = load_models(asked)
    exact = record_decoder(pair, replace(asked, max_new_tokens=SAMPLE_TOKENS), options.samples, progress.make_part(0, 2))
    records, parts = [], len(REPORTED)
    for number, name in enumerate(REPORTED):
        question = MistakeQuestion(asked, name)
        most = min(options.samples, question.max_samples)
        specs = make_specs(question, tuple(pair.encode(asked.prompt)))
        part = progress.make_part(parts + number, 2 * parts)
        records.append(record_mistake(pair, name, specs, most, part))
    found = RecordedSamples(exact, tuple(records))
    return RecordedText(found.to_json(), f"{exact.result.n:,} samples, and those of {len(records)} questions of Break it")


def record_games(settings: Settings, options: argparse.Namespace, progress: Progress) -> RecordedText:
    """Samples of wrong decoders and right ones for the front page, under the text of the opening run and the seed that pages share."""
    from specviz.evidence.recordings.game_drawing import draw_games

    asked = settings if settings.prompt else read_opening_settings(settings)
    found = draw_games(load_models(asked), asked, options.samples, progress)
    return RecordedText(found.to_json(), f"{len(found.games)} games of {options.samples:,} samples each way")


RECORDINGS = {  # name on the command line, of the file and, except for the opening run, of the schema
    "opening": Recording("the first rounds of the race, for One round", record_opening),
    "methods": Recording(
        "every row of Drafting methods under three distributions", record_methods, gamma=FASTEST_GAMMA, length=SURVEY_TOKENS
    ),
    "passage": Recording("the text of Whole text, with and without speculation", record_passage, gamma=FASTEST_GAMMA, length=128),
    "plans": Recording(
        "the plans of How fast?, each with its measurement", record_plans, continuations=32, least={"runs": 2, "continuations": 2}
    ),
    "batches": Recording(
        "passes over 1 to 64 rows, for many texts at once in How fast?",
        record_batches,
        continuations=48,
        least={"continuations": 2},
    ),
    "setups": Recording(
        "the target of Serving limits, served in several ways", record_setups, gamma=FASTEST_GAMMA, least={"continuations": 2}
    ),
    "samples": Recording("samples and their tests, of Exactness test and Break it", record_samples, samples=100_000),
    "games": Recording("samples of wrong decoders for the front page", record_games),
    "costs": Recording(
        "a cost model of this machine, for plan --costs and the pages about speed",
        record_costs,
        length=CONTINUATION_TOKENS,
        continuations=8,
    ),
    "pair": Recording(
        "one pair, or one drafting method on a target, for the gallery in docs/models.md: acceptance, divergences, speed, a sample",
        record_pair,
        length=CONTINUATION_TOKENS,
        continuations=32,
        least={"continuations": 2},
    ),
    "trees": Recording("how many nodes of a tree pay, the default of --tree-budget", record_trees),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, names = parser.add_argument, "; ".join(f"{name}: {one.summary}" for name, one in RECORDINGS.items())
    what = Setting("what", str, True, None, "", "run", choices=tuple(RECORDINGS))
    add("what", nargs="?", type=what.parse, default="opening", metavar="WHAT", help=f"{names} (default: opening)")
    add_pair_options(parser)
    add_run_options(parser)
    add_decoding_options(parser)
    add_drafting_options(parser)
    parser.set_defaults(gamma=None, max_new_tokens=None)  # their defaults depend on what is recorded

    add_count(add, "rounds", 1, NO_LIMIT, "opening: number of rounds, of the race at least", 6)
    add_count(
        add,
        "seeds",
        1,
        NO_LIMIT,
        "passage: seeds to try from --seed on; the first whose texts are fit for a class is kept",
        1,
    )
    add_count(
        add,
        "runs",
        1,
        NO_LIMIT,
        "how often each is timed; batches, costs, trees: three times as often; pair: runs into which decoded texts are divided",
        6,
    )
    add_count(
        add,
        "samples",
        1,
        NO_LIMIT,
        "methods: samples of each row's first token (default: 2,000); samples: of each decoder (100,000)",
    )
    counts = "texts that are continued: passage, setups (default: 24), plans, pair (32), batches (48), costs (8)"
    add_count(add, "continuations", 0, NO_LIMIT, counts)
    add("--title", default="", metavar="TEXT", help="pair: what the gallery calls it (default: the names of the folders)")
    add("--license", default="not stated", metavar="TEXT", help="pair: the license of the weights (default: not stated)")
    add("--tokens-only", action="store_true", help="plans, pair: leave speed out, for a machine that is busy")
    add_count(add, "positions", 1, NO_LIMIT, "setups: prefixes of each check", 300)
    add("--out", type=Path, metavar="FILE", help="file to write (default: the one that the page opens with)")


def run(options: argparse.Namespace) -> int:
    name, what = options.what, RECORDINGS[options.what]
    defaults = {"gamma": what.gamma, "max_new_tokens": what.length, "continuations": what.continuations, "samples": what.samples}
    for option, default in defaults.items():
        if getattr(options, option) is None:
            setattr(options, option, default)
    settings = read_run_settings(options)
    for option, least in what.least.items():
        if (value := getattr(options, option)) < least:
            raise SettingsError(option, value, f"{least} or more")
    if name not in ("opening", "pair"):
        refuse_drafting(settings, f"record {name}")
    schema = Schema(SCHEMA.name if name == "opening" else name, 0, "The record")
    out = options.out or (COST_MODEL if name == "costs" else ASSETS / "traces" / f"{name}.json")
    if name == "pair" and options.out is None:
        allowed = "a file for the record of a pair, such as assets/pairs/NAME.json for the gallery"
        raise SettingsError("out", "nothing", allowed, f"--out is missing. Give {allowed}.")
    schema.refuse_other(out)  # before minutes of work, not after
    text, summary, code = what.record(settings, options, Progress(name))
    print(f"{summary} -> {schema.save(out, text)}")
    return code
