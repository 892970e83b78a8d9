"""Make a plan: texts of the target, one pass of both models over them, probes of round costs, and optionally the measurement."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from specviz.errors import SettingsError
from specviz.models.cache.masks import list_attention_windows
from specviz.models.pairs.loading import LoadedPair
from specviz.models.uncached import build_draft_reference
from specviz.progress import Expect, ProgressCallback, ignore_progress, split_progress
from specviz.proposers.registry import PROPOSERS
from specviz.settings import Settings
from specviz.speed.benchmarks.target_only import find_baseline
from specviz.speed.measurement.acceptance import (
    TEXTS_PER_BATCH,
    AcceptanceProbabilities,
    Ids,
    Texts,
    compute_expected_rounds,
    cut_openings,
    decode_texts,
    encode_prompts,
    has_same_weights,
    measure_acceptance,
    refuse_unplanned,
    tokenize_text,
)
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.costs import TIMED_ROUNDS, WARM_ROUNDS, WARM_RUNS, RoundProbes
from specviz.speed.measurement.machine import describe_measurement
from specviz.speed.measurement.text_passes import describe_pair
from specviz.speed.measurement.timed_decoding import (
    BATCH_PASS_ROUNDS,
    DecodingPace,
    decode_speculatively,
    decode_target_only,
    measure_pace,
)
from specviz.speed.prediction.plan_effort import DEFAULT_EFFORT, PlanEffort
from specviz.speed.records.cost_model import CostModel
from specviz.speed.records.estimate import PERCENTILES, Estimate
from specviz.speed.records.plan import MeasuredRow, PlanRow, RoundCostCurve, SpeedPlan
from specviz.speed.records.server_commands import MIXED_WINDOWS
from specviz.theory import (
    LinearCost,
    compute_expected_tokens,
    compute_hazard_tokens,
    compute_operation_factor,
    compute_speed_factor,
    compute_wall_clock_factor,
    find_best_gamma,
)

T = TypeVar("T")
RESAMPLES = 400
LEAST_TEXTS, LEAST_TOKENS, LEAST_PROBES = 8, 16, 2  # of a plan that is cut
SCORED_TOKENS = 24  # of the text by which it is timed how long both models read one
HEADROOM = 0.8  # of its seconds are planned for: a batch of texts of a large vocabulary takes up to twice its estimate
TEXTS_SHARE = 0.4  # of these, for the texts
TOKENS_PER_PASS, TIMES = "tokens/pass", "times"  # units


class PlanForecast:
    """Everything that follows from the acceptance probabilities of texts, for several gammas.

    Attributes:
        target_texts, user_texts: Probabilities over the target's texts and over the user's own (None: there is none).
        gammas: Ascending, none above what they hold.
        seed: Of the resamples, the same for all.
        plain: Over the target's texts under the token rule, if ``target_texts`` are of another rule.
    """

    def __init__(
        self,
        target_texts: AcceptanceProbabilities,
        user_texts: AcceptanceProbabilities | None,
        gammas: Sequence[int],
        seed: int = 0,
        plain: AcceptanceProbabilities | None = None,
    ):
        self.gammas = tuple(gammas)
        self.rounds = {gamma: compute_expected_rounds(target_texts, gamma) for gamma in self.gammas}
        self.user_texts = (
            {gamma: compute_expected_rounds(user_texts, gamma) for gamma in self.gammas} if user_texts is not None else {}
        )
        self.plain = {gamma: compute_expected_rounds(plain, gamma) for gamma in self.gammas} if plain is not None else {}
        self.rng = np.random.default_rng(seed)
        self.texts = len(target_texts.accepted)
        self.weights = self._draw_resamples(self.texts)  # the user's texts begin where the target's do: one draw is for both

    def _draw_resamples(self, texts: int) -> np.ndarray:
        """(RESAMPLES, texts): how often each text is drawn."""
        return self.rng.multinomial(texts, np.full(texts, 1.0 / texts), RESAMPLES)

    def build_row(self, gamma: int) -> PlanRow:
        """Tokens per pass at one gamma by every formula, without costs."""
        found, gain = self.rounds[gamma], None
        many = found.resample_tokens_per_pass(self.weights)
        if self.plain:
            plain = self.plain[gamma]
            above = many - plain.resample_tokens_per_pass(self.weights)
            gain = Estimate.from_resamples(found.per_pass - plain.per_pass, above, self.texts, TOKENS_PER_PASS)
        return PlanRow(
            gamma,
            tokens=Estimate.from_resamples(found.per_pass, many, self.texts, TOKENS_PER_PASS),
            hazards=compute_hazard_tokens(self.rounds[self.gammas[-1]].hazards, gamma),
            independent=compute_expected_tokens(found.alpha, gamma),
            own_text=self.user_texts[gamma].per_pass if self.user_texts else None,
            alpha=found.alpha,
            gain=gain,
            round_sizes=tuple((found.by_size.sum(0) / found.by_size.sum()).round(6).tolist()),
        )

    def estimate_positions(self) -> tuple[Estimate, ...]:
        """Acceptance rate at each position of a round at the largest gamma, among the draft tokens that are checked there.

        Ends before the first position that no round reaches.
        """
        longest = self.rounds[self.gammas[-1]]
        many = _divide_counts(self.weights @ longest.accepted, self.weights @ longest.tested)
        reached = int((longest.tested.sum(0) > 0.0).cumprod().sum())
        return tuple(Estimate.from_resamples(longest.hazards[j], many[:, j], self.texts) for j in range(reached))

    def estimate_factors(self, curve: RoundCostCurve) -> tuple[dict[int, Estimate], Estimate]:
        """Speed-ups by gamma, and the gamma that is best, over resamples of texts and of the probes' runs."""
        table = np.column_stack([curve.target_only, np.array(curve.rounds), np.array(curve.first)])
        table /= np.exp(np.log(table).mean(1, keepdims=True))  # what slows down a whole run slows down all of its probes
        runs = self.rng.integers(0, len(table), (RESAMPLES, len(table)))
        costs, resampled = np.median(table, axis=0), np.median(table[runs], axis=1)
        found, many = {}, {}
        for gamma in self.gammas:
            many[gamma] = self._compute_factor(gamma, self.weights, resampled)
            value = self._compute_factor(gamma, np.ones((1, self.texts)), costs[None])[0]
            found[gamma] = Estimate.from_resamples(value, many[gamma], self.texts, TIMES)
        best = [find_best_gamma({gamma: float(many[gamma][k]) for gamma in self.gammas}) for k in range(RESAMPLES)]
        chosen = find_best_gamma({gamma: one.value for gamma, one in found.items()})
        low, high = np.percentile(best, PERCENTILES, method="nearest").tolist()
        return found, Estimate(float(chosen), float(low), float(high), self.texts)

    def _compute_factor(self, gamma: int, weights: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """Seconds of the target alone over those of speculation, (K,), both with their first rounds, which read the prompts.

        weights: (K, B): how often each text counts; costs: (K, 2 G + 4): a token alone, rounds with 0 to G draft tokens, and the
        first rounds in the same order, in any unit of time.
        """
        one, texts = self.rounds[gamma], weights.sum(1)
        alone, warm, first = costs[:, 0], costs[:, 1 : costs.shape[1] // 2], costs[:, costs.shape[1] // 2 :]
        longest = min(gamma, one.tokens - 1)  # draft tokens of a first round
        seconds = ((weights @ one.by_size) * warm[:, : gamma + 1]).sum(1)
        seconds += texts * (first[:, 1 + longest] - warm[:, longest])
        return texts * (one.tokens * alone + first[:, 0] - alone) / seconds

    def compute_formulas(self, gamma: int, curve: RoundCostCurve) -> tuple[float, float]:
        """Speed-ups of plainer theory: Leviathan's formula at the measured c, and the hazards at a cost with a fixed part."""
        costs, alone, alpha = (
            np.median(np.array(curve.rounds), axis=0),
            float(np.median(curve.target_only)),
            self.rounds[gamma].alpha,
        )
        linear = LinearCost.fit({n: float(seconds) for n, seconds in enumerate(costs) if n})
        tokens = compute_hazard_tokens(self.rounds[self.gammas[-1]].hazards, gamma)
        return compute_wall_clock_factor(alpha, gamma, curve.c), compute_speed_factor(
            tokens, linear.compute_seconds(gamma), alone
        )

    def build_measured_row(self, gamma: int, tokens: int, rounds: np.ndarray, plain: np.ndarray | None = None) -> MeasuredRow:
        """Tokens per pass of measured texts, and the gap of every formula to them.

        tokens: of each text; rounds: (B,) that the texts took; plain: those under the token rule, if another rule was measured.
        """
        count, picked = len(rounds), self._draw_resamples(len(rounds))
        value, many = tokens * count / float(rounds.sum()), tokens * count / (picked @ rounds)
        row, one, longest = self.build_row(gamma), self.rounds[gamma], self.rounds[self.gammas[-1]]
        hazards = _divide_counts(self.weights @ longest.accepted, self.weights @ longest.tested)[:, :gamma]
        alphas = _divide_counts(self.weights @ one.accepted.sum(1), self.weights @ one.tested.sum(1))
        predicted = {
            "accepted draft tokens": (row.tokens.value, one.resample_tokens_per_pass(self.weights)),
            "hazards": (row.hazards, 1.0 + np.cumprod(hazards, axis=1).sum(1)),
            "independent": (row.independent, np.array([compute_expected_tokens(alpha, gamma) for alpha in alphas])),
        }
        if self.user_texts:
            predicted["own text"] = (
                self.user_texts[gamma].per_pass,
                self.user_texts[gamma].resample_tokens_per_pass(self.weights),
            )
        gaps = {
            name: Estimate.from_resamples(tokens_per_pass / value - 1.0, others / many - 1.0, count)
            for name, (tokens_per_pass, others) in predicted.items()
        }
        gain = None
        if plain is not None:
            above = value - tokens * count / float(plain.sum())
            gain = Estimate.from_resamples(above, many - tokens * count / (picked @ plain), count, TOKENS_PER_PASS)
        return MeasuredRow(gamma, Estimate.from_resamples(value, many, count, TOKENS_PER_PASS), gaps, gain=gain)


def _divide_counts(accepted: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """Accepted over checked draft tokens, 0 where none was checked."""
    return np.divide(accepted, tested, out=np.zeros_like(accepted), where=tested > 0.0)


DRAFTABLE_TEXTS = 16  # texts along which is measured what a draft with another tokenizer can propose
PLAIN_RULE = "token"  # the rule that another rule's gain is compared with
WRITING, OVER_ITS, OVER_YOURS = "the target writes", "one pass over its texts", "one pass over your text"
COSTS, COUNTING, TIMING = "costs", "counting rounds", "timing"  # what is being done


def make_plan(
    pair: LoadedPair,
    settings: Settings,
    text: str | Sequence[str],
    gammas: Sequence[int],
    effort: PlanEffort = DEFAULT_EFFORT,
    name: str = "",
    on_progress: ProgressCallback = ignore_progress,
    expect: Expect = ignore_progress,
    show: Callable[[SpeedPlan], None] = ignore_progress,
    cost_model: CostModel | None = None,
) -> SpeedPlan:
    """Predict, and measure if asked.

    settings: pair, proposer, distribution, seed and length of a continuation; gammas: ascending, from 1; name: of the text, for
    the record; text: like those that will be written, continued from places all over it; or prompts, each continued as it is;
    expect: called after a first probe how long the rest will take; show: called with the plan as soon as its tokens are counted,
    without speeds; cost_model: another machine, from whose costs speeds are computed; nothing is timed then.

    Raises SettingsError for a text, a pair or a proposer that nothing can be planned for.
    """
    refuse_unplanned(settings)
    began = time.monotonic()
    effort = replace(effort, probes=0) if cost_model else effort
    has_pair_draft = PROPOSERS.find(settings.proposer).build_reference is build_draft_reference  # the pair's draft model drafts
    if has_pair_draft and has_same_weights(pair):
        raise SettingsError(
            "draft", pair.name, "another model than the target: each draft token would cost the token that it saves (c = 1)"
        )
    user_texts: list[tuple[Ids, Ids]] = []
    if isinstance(text, str):
        size = len(tokenize_text(pair, text, effort.opening, settings.max_new_tokens))
        user_texts = cut_openings(pair, text, effort.opening, settings.max_new_tokens, effort.continuations)
        prompts = [prompt for prompt, _ in user_texts]
    else:
        prompts = encode_prompts(pair, text, settings.max_new_tokens)
        size = sum(map(len, prompts))
    longest = replace(settings, gamma=gammas[-1])
    target_pace, drafted_pace = (
        measure_pace(decode(pair, longest, prompts[0])) for decode in (decode_target_only, decode_speculatively)
    )
    scoring = None if effort.check else _time_scoring(pair, longest, prompts[0])
    paces, length = (target_pace, drafted_pace), settings.max_new_tokens
    weights = estimate_stage_seconds(*paces, length, len(prompts), gammas, effort, scoring)
    weights |= {} if user_texts else {OVER_YOURS: 0.0}
    sizes: Sequence[int] = range(gammas[-1] + 1)
    warm_runs = WARM_RUNS
    if not effort.check:
        effort = effort.subtract_seconds(time.monotonic() - began)
    if sum(weights.values()) > HEADROOM * effort.seconds and not effort.check:
        sizes, warm_runs = choose_sizes(gammas[-1]), 1
        each = estimate_stage_seconds(*paces, length, len(prompts), gammas, effort, scoring, sizes, warm_runs)
        count, length, probes = fit_effort(effort, len(prompts), length, each, warm_runs)
        scoring = None if scoring is None else scoring * length / settings.max_new_tokens
        settings, effort = replace(settings, max_new_tokens=length), replace(effort, probes=probes)
        prompts, user_texts = thin_out(prompts, count), []
        weights = estimate_stage_seconds(*paces, length, count, gammas, effort, scoring, sizes, warm_runs) | {OVER_YOURS: 0.0}
    expect(sum(weights.values()))
    tell = split_progress(on_progress, weights)
    target_texts = list(zip(prompts, decode_texts(pair, settings, prompts, on_progress=tell[WRITING])[0], strict=True))
    forecast = PlanForecast(
        measure_acceptance(pair, settings, target_texts, gammas[-1], on_progress=tell[OVER_ITS]),
        measure_acceptance(pair, settings, user_texts, gammas[-1], is_target_text=False, on_progress=tell[OVER_YOURS])
        if user_texts
        else None,
        gammas,
        plain=None
        if settings.rule == PLAIN_RULE
        else measure_acceptance(pair, replace(settings, rule=PLAIN_RULE), target_texts, gammas[-1]),
    )
    rows = [forecast.build_row(gamma) for gamma in gammas]
    if has_pair_draft:
        c_hat = pair.draft.num_parameters() / pair.target.num_parameters()
        rows = [replace(row, operations=compute_operation_factor(row.tokens.value, row.gamma, c_hat)) for row in rows]
    measured = describe_measurement(pair)
    measured["models"] = describe_pair(pair, settings, target_texts[:DRAFTABLE_TEXTS])
    config = pair.draft.config.get_text_config()
    measured["models"]["draft"]["layers"] = getattr(config, "num_hidden_layers", None)
    if len(list_attention_windows(config)) > 1:
        measured["models"]["draft"]["windows"] = MIXED_WINDOWS
    plan = SpeedPlan(
        settings=settings,
        text={"name": name, "tokens": size} | identify_text(text),
        openings=len(prompts),
        opening=effort.opening if isinstance(text, str) else 0,
        length=settings.max_new_tokens,
        rows=tuple(rows),
        positions=forecast.estimate_positions(),
        **measured,
    )
    plan = plan.with_cost_model(cost_model) if cost_model else plan
    if effort.check:
        return _measure_plan(pair, plan, target_texts, forecast, effort, tell)
    if not effort.probes:
        return plan
    show(plan)
    plan = replace(plan, baseline=find_baseline(pair, settings, prompts[0]))
    timed = RoundProbes(pair, settings, target_texts, gammas[-1], sizes, warm_runs)
    return _add_costs(plan, forecast, timed.run_until(effort.probes, tell[COSTS]).build_curve())


def _time_scoring(pair: LoadedPair, settings: Settings, prompt: Ids) -> float:
    """Seconds in which both models read a text and its distributions are compared, from a shorter one."""
    count, began = min(SCORED_TOKENS, settings.max_new_tokens), time.perf_counter()
    scored = replace(settings, max_new_tokens=count)
    measure_acceptance(pair, scored, [(prompt, np.resize(np.array(prompt), count))], settings.gamma)
    return (time.perf_counter() - began) * settings.max_new_tokens / count


def choose_sizes(most: int) -> tuple[int, ...]:
    """Numbers of draft tokens that are timed where time is short: 0, 1, 4, 16, .. and ``most``."""
    return tuple(sorted({0, *(4**k for k in range(4) if 4**k < most), most}))


def fit_effort(effort: PlanEffort, texts: int, length: int, weights: dict[str, float], warm_runs: int) -> tuple[int, int, int]:
    """Continuations, tokens of each, and probes that fit into ``HEADROOM`` of the effort's seconds, with the fewest where not even these fit.

    Continuations get shorter where ``LEAST_TEXTS`` of their full length do not fit.

    Args:
        effort: What is wanted.
        texts: Number of continuations that are wanted.
        length: Tokens of each that are wanted.
        weights: Seconds of each stage, as ``estimate_stage_seconds`` gives them for all that is wanted.
        warm_runs: Runs of the probes that are not counted.
    """
    writing, reading = weights[WRITING] / -(-texts // TEXTS_PER_BATCH), weights[OVER_ITS] / texts
    planned, fewest = HEADROOM * effort.seconds, min(LEAST_TEXTS, texts)
    of_texts = planned * (TEXTS_SHARE if effort.probes else 1.0)
    part = min(1.0, max(min(LEAST_TOKENS, length) / length, of_texts / (writing + fewest * reading)))
    count = max(fewest, min(texts, int((of_texts - part * writing) / (part * reading))))
    tokens = round(part * length)
    if not effort.probes:
        return count, tokens, 0
    probes = int((1.0 - TEXTS_SHARE) * planned / (weights[COSTS] / (effort.probes + warm_runs))) - warm_runs
    return count, tokens, max(LEAST_PROBES, min(effort.probes, probes))


def thin_out(items: Sequence[Ids], count: int) -> list[Ids]:
    """``count`` of them, evenly spread."""
    return [items[round(place)] for place in np.linspace(0, len(items) - 1, min(count, len(items)))]


def identify_text(text: str | Sequence[str]) -> dict[str, object]:
    """The hash of a text, or of prompts one to a line, and then their number too."""
    whole = text if isinstance(text, str) else "\n".join(text)
    found: dict[str, object] = {"sha256": hashlib.sha256(whole.encode()).hexdigest()}
    return found if isinstance(text, str) else found | {"prompts": len(text)}


def _add_costs(plan: SpeedPlan, forecast: PlanForecast, costs: RoundCostCurve) -> SpeedPlan:
    costs = costs.with_baseline(plan.baseline)
    factors, best = forecast.estimate_factors(costs)
    rows = []
    for row in plan.rows:
        leviathan, linear = forecast.compute_formulas(row.gamma, costs)
        rows.append(replace(row, factor=factors[row.gamma], leviathan=leviathan, linear=linear))
    return replace(plan, rows=tuple(rows), costs=costs, best=best)


def estimate_stage_seconds(
    target: DecodingPace,
    drafted: DecodingPace,
    length: int,
    texts: int,
    gammas: Sequence[int],
    effort: PlanEffort,
    scoring: float | None = None,
    sizes: Sequence[int] | None = None,
    warm_runs: int = WARM_RUNS,
) -> dict[str, float]:
    """Seconds that each stage of a plan will take, by the pace of the target alone and that of rounds with the largest gamma.

    ``scoring``: seconds in which both models read one text; None: not timed. ``sizes``, ``warm_runs``: as of ``RoundProbes``.
    """
    many, most = BATCH_PASS_ROUNDS * target.each, gammas[-1]
    reading = 2 * many if scoring is None else scoring

    def interpolate_pace(gamma: int) -> DecodingPace:
        """Between the two paces, as far as the number of draft tokens lies between theirs; they count for the expected tokens too."""
        part = gamma / most
        first, each, tokens = (
            low + part * (high - low)
            for low, high in ((target.first, drafted.first), (target.each, drafted.each), (target.tokens, drafted.tokens))
        )
        return DecodingPace(first, each, tokens)

    weights = {WRITING: -(-texts // TEXTS_PER_BATCH) * length * many, OVER_ITS: texts * reading, OVER_YOURS: texts * reading}
    kinds = [target, *(interpolate_pace(gamma) for gamma in sizes or range(most + 1))]
    costs = (
        (effort.probes + warm_runs) * sum(one.first + (WARM_ROUNDS + TIMED_ROUNDS) * one.each for one in kinds)
        if effort.probes
        else 0.0
    )
    if not effort.check:
        return weights | {COSTS: costs}
    paces = [interpolate_pace(gamma) for gamma in gammas]
    counting = sum(-(-texts // TEXTS_PER_BATCH) * length / one.tokens * (one.each + many) for one in paces)
    timed = (
        sum(one.estimate_seconds(length) for one in (target, *paces)) * max(min(texts, effort.timed), effort.runs)
        if effort.probes
        else 0.0
    )
    return weights | {COUNTING: counting, TIMING: costs + timed}


def _measure_plan(
    pair: LoadedPair,
    plan: SpeedPlan,
    target_texts: Texts,
    forecast: PlanForecast,
    effort: PlanEffort,
    tell: dict[str, Callable[..., None]],
) -> SpeedPlan:
    """The same openings decoded speculatively with other seeds: rounds counted for every gamma, then speed by the clock.

    Probes lie between measured texts, so what slows the machine down for a minute is in both the prediction and the measurement.
    """
    prompts = [prompt for prompt, _ in target_texts]
    gammas, other = [row.gamma for row in plan.rows], plan.settings.rule != PLAIN_RULE
    work = [(gamma, rule) for gamma in gammas for rule in ((plan.settings.rule, PLAIN_RULE) if other else (PLAIN_RULE,))]
    count: dict[tuple[int, str], np.ndarray] = {}
    for number, (gamma, rule) in enumerate(work):
        seed = (plan.settings.seed + 1 + gammas.index(gamma)) % 2**63
        asked = replace(plan.settings, gamma=gamma, rule=rule, seed=seed)
        _, count[gamma, rule], _ = decode_texts(
            pair, asked, prompts, True, lambda share, number=number: tell[COUNTING]((number + share) / len(work))
        )
    found = [
        forecast.build_measured_row(
            gamma, plan.length, count[gamma, plan.settings.rule], count[gamma, PLAIN_RULE] if other else None
        )
        for gamma in gammas
    ]
    if not effort.probes:
        return replace(plan, checked=tuple(found))
    plan = replace(plan, baseline=find_baseline(pair, plan.settings, prompts[0]))
    slower = plan.baseline.factor if plan.baseline else 1.0  # this project's loop than the baseline
    picked = [prompts[place] for place in sorted({round(x) for x in np.linspace(0, len(prompts) - 1, effort.timed)})]
    probes = RoundProbes(pair, plan.settings, target_texts, gammas[-1])
    parts = split_into_runs(picked, effort.runs)

    def take_probes(share: float) -> None:
        probes.run_until(round(effort.probes * share))

    clock = time_gammas(
        pair,
        plan.settings,
        (0, *gammas),
        parts,
        tell[TIMING],
        between=take_probes,
    )
    plan = _add_costs(plan, forecast, probes.build_curve())
    tokens = sum(map(len, parts)) * plan.length

    def list_rates(gamma: int) -> tuple[float, ...]:
        return tuple(len(part) * plan.length / spent for part, spent in zip(parts, clock.get_seconds(gamma), strict=True))

    predicted = {row.gamma: row for row in plan.rows}
    found = [
        replace(
            row,
            rate=list_rates(row.gamma),
            factor=clock.compute_ratio(0, row.gamma).convert(1.0 / slower, TIMES),
            noise=sum(clock.get_kept(row.gamma)) / (tokens / predicted[row.gamma].tokens.value) - 1.0,
        )
        for row in found
    ]
    return replace(plan, checked=tuple(found), target_only_rates=tuple(slower * rate for rate in list_rates(0)))


def split_into_runs(texts: Sequence[T], runs: int) -> list[Sequence[T]]:
    """The texts of each run: every text once in all runs together; with fewer texts than runs some come again."""
    return [texts[run % len(texts) :: runs] for run in range(runs)]


def time_gammas(
    pair: LoadedPair,
    settings: Settings,
    gammas: Sequence[int],
    parts: Sequence[Sequence[Ids]],
    on_progress: ProgressCallback = ignore_progress,
    between: Callable[[float], None] = ignore_progress,
) -> Clock[int]:
    """The clock of every gamma, 0 being the target alone, over the texts of each run; it keeps the number of rounds of each text.

    All gammas write a text, one right after the other under the same seed, before the next text begins, so that a burst of other work
    meets all alike. A run of one text before them warms up. between: called after each text with the share of the work that is done.
    """

    def write(gamma: int, lap: Lap) -> None:
        varied = replace(settings, gamma=gamma, seed=(settings.seed + 100 + lap.run) % 2**63)
        lap.keep(_count_rounds(pair, varied, lap.item))

    clock = Clock(
        {gamma: partial(write, gamma) for gamma in gammas}, items=lambda run: parts[run - 1] if run > 0 else parts[0][:1]
    )
    return clock.run_until(len(parts), lambda share, run, key: on_progress(share), lambda share, run, item: between(share))


def _count_rounds(pair: LoadedPair, settings: Settings, prompt: Ids) -> int:
    """Write it; returns its rounds."""
    return sum(1 for _ in (decode_speculatively if settings.gamma else decode_target_only)(pair, settings, prompt))
