"""A first look at a pair, in about two minutes: does it fit, is decoding exact, does speculation pay, what would pay more.

Each answer is a short form of a command that takes longer: ``pairs check``, ``verify``, ``plan`` and ``bench``. It comes with what it can
detect or with its interval, so that a user knows whether the longer command is worth its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.errors import SpecvizError
from specviz.evidence.decoder import ENGINE, SPECULATIVE, build_decoder
from specviz.evidence.sampling.plan import SamplingPlan
from specviz.evidence.sampling.session import Session
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.names import parse_pair_name
from specviz.progress import ProgressCallback, ignore_progress, split_progress
from specviz.proposers.request import open_proposer
from specviz.records import to_json_value
from specviz.settings import Settings, check_declared, declare_count
from specviz.speed.benchmarks.drafting_methods import build_method_clock
from specviz.speed.benchmarks.target_only import find_baseline
from specviz.speed.measurement.acceptance import cut_openings
from specviz.speed.measurement.machine import describe_measurement
from specviz.speed.prediction.plan import make_plan, thin_out
from specviz.speed.prediction.plan_effort import PlanEffort
from specviz.speed.prediction.preflight import Preflight
from specviz.speed.records.estimate import MIN_RUNS, Estimate
from specviz.speed.records.methods import DRAFTING_METHODS
from specviz.speed.records.plan import PlanRow, SpeedPlan
from specviz.speed.records.server_commands import ServerCommand, build_server_commands

SCHEMA = "specviz-assessment-1"
SAMPLES, SAMPLE_TOKENS = 2000, 2  # samples of the engine: a draft token and the one after it
PREFIXES = 12  # at which the engine's own distribution is computed; verify takes 40
PROMPT = "Once upon a time"
COPIED_PROMPT = "no, no, no"  # without a draft: a text of which copied tokens are proposed
OPENING_TOKENS, CONTINUATION_TOKENS = 32, 48  # of the texts that speed is measured on
GAMMAS = tuple(range(1, 9))
UNPLANNED_GAMMA = 4  # of the methods, where no plan says a better one, and of those whose draft tokens cost no pass
COSTLESS = ("ngram", "lookahead")
WITHOUT_DRAFT = ("ngram", "lookahead", "early-exit")  # methods that need no draft model
LEAST_PLAN_SECONDS = 10
MOST_RUNS, LEAST_RUNS = 9, 2  # of the clock of methods
EXACT, PAYS, METHODS = "is it exact", "does it pay", "what would pay more"  # what is being done
SHARES = {EXACT: 0.5, PAYS: 0.3, METHODS: 0.2}  # of the seconds


@dataclass(frozen=True, slots=True)
class AssessmentEffort:
    """How long an assessment takes, about; loading the models comes before it."""

    seconds: int = declare_count(90, 20, 3600, "seconds that it may take after the models are loaded, about")

    def __post_init__(self) -> None:
        check_declared(self)


DEFAULT_ASSESSMENT = AssessmentEffort()


@dataclass(frozen=True, slots=True)
class MethodSpeed:
    """A drafting method beside the target alone.

    Attributes:
        key: Of DRAFTING_METHODS.
        gamma: Draft tokens of a round.
        tokens_per_pass: Mean over the timed texts.
        speedup: Times as fast as the fastest target-only loop; None with a ``reason``.
        reason: Why it did not run.
    """

    key: str
    gamma: int
    tokens_per_pass: float = 0.0
    speedup: Estimate | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return DRAFTING_METHODS[self.key].name


@dataclass(frozen=True, slots=True)
class Assessment:
    """What was found out about a pair. None, or empty: not reached.

    Attributes:
        settings: Pair, drafting method and distribution.
        preflight: Whether it fits this machine.
        report: Of samples of the engine: a certificate as ``verify`` writes it.
        plan: Tokens per target pass and speed by draft length.
        methods: Measured side by side: the pair's draft at the best draft length, and methods without a draft.
    """

    settings: Settings
    preflight: Preflight | None = None
    report: Mapping[str, Any] | None = None
    plan: SpeedPlan | None = None
    methods: tuple[MethodSpeed, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    @property
    def best_row(self) -> PlanRow | None:
        """The row of the plan with the largest predicted speed-up, whether it pays or not."""
        rows = [row for row in self.plan.rows if row.factor is not None] if self.plan else []
        return max(rows, key=lambda row: row.speedup.value, default=None)

    @property
    def fastest(self) -> MethodSpeed | None:
        """The method with the largest measured speed-up; None where none has one."""
        timed = [one for one in self.methods if one.speedup is not None]
        return max(timed, key=lambda one: one.speedup.value if one.speedup else 0.0, default=None)

    @property
    def advice(self) -> str:
        """Which method to take, as a sentence that says how sure it is; '' where none was timed."""
        best = self.fastest
        if best is None or best.speedup is None:
            return ""
        if best.speedup.n < MIN_RUNS:
            return f"In {best.speedup.n} runs, too few for an interval, {best.name} was the fastest: {best.speedup.format()} times the target alone."
        if best.speedup.low <= 1.0:
            return f"No method is clearly faster than the target alone here; the first is {best.name}, {best.speedup.format()} times as fast."
        close = [one.name for one in self.methods if one is not best and one.speedup and one.speedup.high >= best.speedup.low]
        said = f"{best.name} is the fastest here, {best.speedup.format()} times the target alone"
        return f"{said}; {' and '.join(close)} cannot be told apart from it." if close else f"{said}."

    @property
    def served(self) -> tuple[Settings, int] | None:
        """Drafting method and draft length to start a server with: copied text where it alone is faster here, else what was planned."""
        best, row = self.fastest, self.best_row
        is_planned = self.plan is not None and self.plan.verdict == "speculate"
        if best is not None and best.key == "ngram" and best.speedup is not None and best.speedup.low > 1.0 and not is_planned:
            return replace(self.settings, proposer="ngram"), best.gamma
        return None if row is None else (self.settings, row.gamma)

    @property
    def server_commands(self) -> tuple[ServerCommand, ...]:
        """How servers are started with ``served``; empty where they lack the method or nothing was planned."""
        if self.plan is None or self.served is None:
            return ()
        return build_server_commands(*self.served, "tokens" in self.plan.models.get("draft", {}))

    def to_record(self) -> dict[str, Any]:
        """JSON-ready."""
        found = {
            "settings": self.settings.to_record(),
            "preflight": self.preflight and self.preflight.to_record(),
            "report": self.report and dict(self.report),
            "plan": self.plan and self.plan.to_record(),
            "methods": to_json_value(self.methods),
            "advice": self.advice,
            "server_commands": to_json_value(self.server_commands),
            "machine": dict(self.machine),
            "date": self.date,
        }
        return {"schema": SCHEMA} | found


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
        on_progress: Called with the share that is done. What it raises ends the work.
        show: Called with what is known after each answer.
        preflight: What was found out before the models were loaded.
    """
    if not has_draft(settings.pair):
        settings = replace(settings, proposer="ngram")
    measured = describe_measurement(pair)
    tell = split_progress(on_progress, SHARES)
    found = Assessment(settings, preflight, machine=measured["machine"], date=measured["date"])
    until = time.monotonic() + effort.seconds
    found = replace(found, report=sample_certificate(pair, settings, SHARES[EXACT] * effort.seconds, tell[EXACT]))
    show(found)
    speed = replace(settings, max_new_tokens=CONTINUATION_TOKENS, prompt="")
    left = (until - time.monotonic()) * SHARES[PAYS] / (SHARES[PAYS] + SHARES[METHODS])
    quick = PlanEffort(opening=OPENING_TOKENS).make_quick(max(LEAST_PLAN_SECONDS, round(left)))
    found = replace(found, plan=make_plan(pair, speed, text, GAMMAS, quick, name, tell[PAYS]))
    show(found)
    row = found.best_row
    gamma = UNPLANNED_GAMMA if row is None else row.gamma
    prompts = [prompt for prompt, _ in cut_openings(pair, text, OPENING_TOKENS, CONTINUATION_TOKENS, MOST_RUNS)]
    return replace(found, methods=time_methods(pair, speed, gamma, prompts, until - time.monotonic(), tell[METHODS]))


def sample_certificate(
    pair: LoadedPair, settings: Settings, seconds: float, on_progress: ProgressCallback = ignore_progress
) -> dict[str, Any]:
    """The report of at most ``SAMPLES`` samples of the engine with its caches, tested for the smallest difference that they detect."""
    prompt = settings.prompt or (PROMPT if has_draft(settings.pair) else COPIED_PROMPT)
    sampled = replace(settings, prompt=prompt, max_new_tokens=SAMPLE_TOKENS)
    plan = SamplingPlan("engine", SAMPLES, seconds=seconds, reference=0)
    session = Session(build_decoder(SPECULATIVE, pair, sampled), plan)
    samples = session.draw(ENGINE, lambda share, *_: on_progress(0.8 * share))
    test = plan.plan_single_test(len(samples), samples.tokens.shape[1])
    session.test(ENGINE, lambda share, *_: on_progress(0.8 + 0.2 * share), plan=test)
    return session.report(prefixes=PREFIXES)


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
    clock, began = build_method_clock(pair, chosen, prompts), time.perf_counter()
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
