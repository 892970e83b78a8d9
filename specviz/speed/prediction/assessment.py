"""A first look at a pair, in about two minutes: does it fit, is decoding exact, does speculation pay, what would pay more.

Each answer is a short form of a command that takes longer: ``pairs check``, ``verify``, ``plan`` and ``bench``. It comes with what it can
detect or with its interval, so that a user knows whether the longer command is worth its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specviz.errors import SpecvizError
from specviz.evidence.decoder import ENGINE, SPECULATIVE, build_decoder
from specviz.evidence.sampling.sampling_plan import SamplingPlan
from specviz.evidence.sampling.session import Session
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.names import parse_pair_name
from specviz.progress import ProgressCallback, ignore_progress, split_progress
from specviz.proposers.request import open_proposer
from specviz.settings import Settings
from specviz.speed.benchmarks.drafting_methods import build_method_clock
from specviz.speed.benchmarks.target_only import find_baseline
from specviz.speed.measurement.acceptance import cut_openings
from specviz.speed.measurement.machine import describe_measurement
from specviz.speed.measurement.timed_decoding import decode_target_only, measure_pace
from specviz.speed.prediction.plan_effort import PlanEffort
from specviz.speed.prediction.planning import LEAST_TOKENS, make_plan, thin_out
from specviz.speed.prediction.preflight import Preflight
from specviz.speed.records.assessment import DEFAULT_ASSESSMENT, Assessment, AssessmentEffort, MethodSpeed
from specviz.speed.records.methods import DRAFTING_METHODS

SAMPLES, SAMPLE_TOKENS = 2000, 2  # samples of the engine: a draft token and the one after it
PROMPT = "Once upon a time"
COPIED_PROMPT = "no, no, no"  # without a draft: a text of which copied tokens are proposed
OPENING_TOKENS, CONTINUATION_TOKENS = 32, 48  # of the texts that speed is measured on
GAMMAS = tuple(range(1, 9))
SLOW_PASS, SLOW_GAMMAS = 0.03, 4  # seconds of a pass from which on fewer draft lengths are planned, up to this one
UNPLANNED_GAMMA = 4  # of the methods, where no plan says a better one, and of those whose draft tokens cost no pass
COSTLESS = ("ngram", "lookahead")
WITHOUT_DRAFT = ("ngram", "lookahead", "early-exit")  # methods that need no draft model
LEAST_PLAN_SECONDS = 10
MOST_RUNS, LEAST_RUNS = 9, 2  # of the clock of methods
EXACT, PAYS, METHODS = "is it exact", "does it pay", "what would pay more"  # what is being done
TESTING_REST = "testing what was drawn (Ctrl-C again leaves it)"
SHARES = {EXACT: 0.6, PAYS: 0.25, METHODS: 0.15}  # of the seconds


def has_draft(name: str) -> bool:
    """Whether a pair of this name brings a draft model of its own; a target that is named twice does not."""
    places = parse_pair_name(name)
    return places is None or places.target != places.draft or places.rounded


def assess_pair(
    pair: LoadedPair,
    settings: Settings,
    text: str,
    effort: AssessmentEffort = DEFAULT_ASSESSMENT,
    name: str = "",
    on_progress: ProgressCallback = ignore_progress,
    show: Callable[[Assessment], None] = ignore_progress,
    preflight: Preflight | None = None,
) -> Assessment:
    """Look at a pair for about ``effort.seconds``.

    Args:
        pair: The models. If target and draft are one model, methods without a draft are looked at.
        settings: Distribution, seed, and the prompt of the samples; where it is empty, one that comes with the project.
        text: Like those that will be written; speed is measured on continuations of it.
        effort: How long.
        name: Of the text, for the record.
        on_progress: Called with the share that is done. An error that it raises ends the work.
        show: Called with what is known after each answer.
        preflight: What was found out before the models were loaded.
    """
    if not has_draft(settings.pair):
        settings = replace(settings, proposer="ngram")
    measured = describe_measurement(pair)
    tell = split_progress(on_progress, SHARES)
    found = Assessment(settings, preflight, machine=measured["machine"], date=measured["date"])
    until = time.monotonic() + effort.seconds

    def show_report(report: dict[str, Any]) -> None:
        nonlocal found
        found = replace(found, report=report)
        show(found)

    show_report(sample_certificate(pair, settings, SHARES[EXACT] * effort.seconds, tell[EXACT], show_report))
    pace = measure_pace(decode_target_only(pair, settings, pair.encode(PROMPT)))
    gammas = GAMMAS if pace.each < SLOW_PASS else GAMMAS[:SLOW_GAMMAS]
    speed = replace(settings, max_new_tokens=CONTINUATION_TOKENS, prompt="")
    left = (until - time.monotonic()) * SHARES[PAYS] / (SHARES[PAYS] + SHARES[METHODS])
    quick = PlanEffort(opening=OPENING_TOKENS).make_quick(max(LEAST_PLAN_SECONDS, round(left)))
    plan = make_plan(pair, speed, text, gammas, quick, name, tell[PAYS])
    found = replace(found, plan=plan)
    show(found)
    row, least = found.best_row, (len(WITHOUT_DRAFT) + 2) * (LEAST_RUNS + 1)  # texts of the clock of methods, at least
    tokens = max(LEAST_TOKENS, min(plan.length, int((until - time.monotonic()) / (least * pace.each))))
    speed = replace(speed, max_new_tokens=tokens)
    gamma = UNPLANNED_GAMMA if row is None else row.gamma
    prompts = [prompt for prompt, _ in cut_openings(pair, text, OPENING_TOKENS, CONTINUATION_TOKENS, MOST_RUNS)]
    return replace(found, methods=time_methods(pair, speed, gamma, prompts, until - time.monotonic(), tell[METHODS]))


def sample_certificate(
    pair: LoadedPair,
    settings: Settings,
    seconds: float,
    on_progress: ProgressCallback = ignore_progress,
    show_interrupted: Callable[[dict[str, Any]], None] = ignore_progress,
) -> dict[str, Any]:
    """The report of at most ``SAMPLES`` samples of the engine with its caches, tested for the smallest difference that they detect.

    show_interrupted: called with the report of the samples so far, if there are any, before an interrupt goes on.
    """
    prompt = settings.prompt or (PROMPT if has_draft(settings.pair) else COPIED_PROMPT)
    sampled = replace(settings, prompt=prompt, max_new_tokens=SAMPLE_TOKENS)
    plan = SamplingPlan("engine", SAMPLES, seconds=seconds, reference=0, least=0)
    session = Session(build_decoder(SPECULATIVE, pair, sampled), plan)
    try:
        samples = session.draw(ENGINE, lambda share, *_: on_progress(0.8 * share))
        test = plan.plan_single_test(len(samples), samples.tokens.shape[1])
        session.test(ENGINE, lambda share, *_: on_progress(0.8 + 0.2 * share), plan=test)
        return session.report()
    except KeyboardInterrupt:
        if (report := session.report_interrupted(lambda share, *_: on_progress(0.8 + 0.2 * share, TESTING_REST))) is not None:
            show_interrupted(report)
        raise


def time_methods(
    pair: LoadedPair,
    settings: Settings,
    gamma: int,
    prompts: Sequence[tuple[int, ...]],
    seconds: float,
    on_progress: ProgressCallback = ignore_progress,
) -> tuple[MethodSpeed, ...]:
    """Time methods side by side, a text of each in a run, for about ``seconds``."""
    keys = (*(("draft",) if has_draft(settings.pair) else ()), *WITHOUT_DRAFT)
    chosen, refused = {"target": replace(settings, proposer="none")}, {}
    for key in keys:
        own = _choose_settings(pair, key, settings, gamma)
        try:
            open_proposer(pair, own)
            chosen[key] = own
        except SpecvizError as error:
            refused[key] = MethodSpeed(key, own.gamma, reason=str(error))
    clock, began = build_method_clock(pair, chosen, lambda run: (prompts[(run - 1) % len(prompts)],)), time.perf_counter()
    while clock.runs < LEAST_RUNS or (
        clock.runs < MOST_RUNS and (time.perf_counter() - began) * (clock.runs + 1) / clock.runs < seconds
    ):
        clock.run_until(clock.runs + 1, lambda share, run, key: on_progress((run - 1 + share) / MOST_RUNS))
    on_progress(1.0)
    baseline = find_baseline(pair, settings, thin_out(prompts, 1)[0])
    found = []
    for key in keys:
        if key not in chosen:
            found.append(refused[key])
            continue
        rounds = clock.get_kept(key)
        speedup = clock.compute_ratio("target", key).convert(1.0 / (baseline.factor if baseline else 1.0), "times")
        found.append(MethodSpeed(key, chosen[key].gamma, sum(len(one.committed) for one in rounds) / len(rounds), speedup))
    return tuple(found)


def _choose_settings(pair: LoadedPair, key: str, settings: Settings, gamma: int) -> Settings:
    """The settings of a method. An early exit of a pair of one's own lies in the middle of its layers."""
    own = DRAFTING_METHODS[key].build_settings(settings)
    if key != "early-exit":
        return replace(own, gamma=UNPLANNED_GAMMA if key in COSTLESS else gamma)
    layers = getattr(pair.target.config.get_text_config(), "num_hidden_layers", 2)
    return own if settings.pair in PAIRS else replace(own, exit_layer=max(1, layers // 2))
