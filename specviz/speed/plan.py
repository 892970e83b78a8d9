"""Make a plan: texts of the target, one pass of both models over them, probes of round costs, and optionally the measurement."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from specviz.errors import SettingsError
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import Expect, ProgressCallback, ignore_progress, split_progress
from specviz.settings import Settings
from specviz.speed.acceptance import (
    TEXTS_PER_BATCH,
    Ids,
    Texts,
    cut_openings,
    decode_texts,
    encode_prompts,
    has_same_weights,
    measure_acceptance,
    refuse_unplanned,
    tokenize_text,
)
from specviz.speed.clock import Clock, Lap
from specviz.speed.costs import TIMED_ROUNDS, WARM_ROUNDS, WARM_RUNS, RoundProbes
from specviz.speed.duration import BATCH_PASS_ROUNDS, DecodingPace, measure_pace
from specviz.speed.forecast import PlanForecast
from specviz.speed.generation import decode_speculatively, decode_target_only
from specviz.speed.machine import describe_measurement
from specviz.speed.records.plan import RoundCostCurve, SpeedPlan
from specviz.speed.text_passes import describe_pair
from specviz.theory import operation_factor

DRAFTABLE_TEXTS = 16  # texts along which is measured what a draft with another tokenizer can propose
PLAIN_RULE = "token"  # the rule that another rule's gain is compared with
WRITING, OVER_ITS, OVER_YOURS = "the target writes", "one pass over its texts", "one pass over your text"
COSTS, COUNTING, TIMING = "costs", "counting rounds", "timing"  # what is being done


@dataclass(frozen=True, slots=True)
class PlanEffort:
    """How much is done for a plan.

    texts, opening  continuations, and tokens of the user's text before each; ``Settings.max_new_tokens`` tokens follow. Prompts are all continued
    probes          runs of the cost probes, 0 for a plan without speed
    check           whether rounds are measured as well, with other seeds
    runs, timed     of its clock, each over other texts; texts that are timed, at most
    """

    texts: int = 64
    opening: int = 64
    probes: int = 45
    check: bool = False
    runs: int = 6
    timed: int = 64


def make_plan(
    pair: LoadedPair,
    settings: Settings,
    text: str | Sequence[str],
    gammas: Sequence[int],
    effort: PlanEffort = PlanEffort(),
    name: str = "",
    on_progress: ProgressCallback = ignore_progress,
    expect: Expect = ignore_progress,
    show: Callable[[SpeedPlan], None] = ignore_progress,
) -> SpeedPlan:
    """Predict, and measure if asked.

    settings  pair, proposer, distribution, seed and length of a continuation; gammas  ascending, from 1; name  of the text, for the record
    text      like those that will be written, continued from places all over it; or prompts, each continued as it is
    expect    called after a first probe how long the rest will take; show  called with the plan as soon as its tokens are counted, without speeds

    Raises SettingsError for a text, a pair or a proposer that nothing can be planned for.
    """
    refuse_unplanned(settings)
    if has_same_weights(pair):
        raise SettingsError(
            "draft", pair.name, "another model than the target: each draft token would cost the token that it saves (c = 1)"
        )
    own: list[tuple[Ids, Ids]] = []
    if isinstance(text, str):
        size = len(tokenize_text(pair, text, effort.opening, settings.max_new_tokens))
        own = cut_openings(pair, text, effort.opening, settings.max_new_tokens, effort.texts)
        prompts = [prompt for prompt, _ in own]
    else:
        prompts = encode_prompts(pair, text, settings.max_new_tokens)
        size = sum(map(len, prompts))
    longest = replace(settings, gamma=gammas[-1])
    target_pace, drafted_pace = (
        measure_pace(decode(pair, longest, prompts[0])) for decode in (decode_target_only, decode_speculatively)
    )
    weights = estimate_stage_seconds(target_pace, drafted_pace, settings.max_new_tokens, len(prompts), gammas, effort)
    weights |= {} if own else {OVER_YOURS: 0.0}
    expect(sum(weights.values()))
    tell = split_progress(on_progress, weights)
    ours = list(zip(prompts, decode_texts(pair, settings, prompts, on_progress=tell[WRITING])[0], strict=True))
    forecast = PlanForecast(
        measure_acceptance(pair, settings, ours, gammas[-1], on_progress=tell[OVER_ITS]),
        measure_acceptance(pair, settings, own, gammas[-1], is_target_text=False, on_progress=tell[OVER_YOURS]) if own else None,
        gammas,
        plain=None
        if settings.rule == PLAIN_RULE
        else measure_acceptance(pair, replace(settings, rule=PLAIN_RULE), ours, gammas[-1]),
    )
    rows = [forecast.row(gamma) for gamma in gammas]
    if settings.proposer == "draft":
        c_hat = pair.draft.num_parameters() / pair.target.num_parameters()
        rows = [replace(row, operations=operation_factor(row.tokens.value, row.gamma, c_hat)) for row in rows]
    measured = describe_measurement(pair)
    measured["models"] = describe_pair(pair, settings, ours[:DRAFTABLE_TEXTS])
    plan = SpeedPlan(
        settings=settings,
        text={"name": name, "tokens": size} | _identify_text(text),
        openings=len(prompts),
        opening=effort.opening if own else 0,
        length=settings.max_new_tokens,
        rows=tuple(rows),
        positions=forecast.positions(),
        **measured,
    )
    if effort.check:
        return _measure_plan(pair, plan, ours, forecast, effort, tell)
    if not effort.probes:
        return plan
    show(plan)
    return _add_costs(plan, forecast, RoundProbes(pair, settings, ours, gammas[-1]).run_until(effort.probes, tell[COSTS]).curve())


def _identify_text(text: str | Sequence[str]) -> dict[str, object]:
    """The hash of a text, or of prompts one to a line, and then their number too."""
    whole = text if isinstance(text, str) else "\n".join(text)
    found: dict[str, object] = {"sha256": hashlib.sha256(whole.encode()).hexdigest()}
    return found if isinstance(text, str) else found | {"prompts": len(text)}


def _add_costs(plan: SpeedPlan, forecast: PlanForecast, costs: RoundCostCurve) -> SpeedPlan:
    factors, best = forecast.factors(costs)
    rows = []
    for row in plan.rows:
        leviathan, linear = forecast.formulas(row.gamma, costs)
        rows.append(replace(row, factor=factors[row.gamma], leviathan=leviathan, linear=linear))
    return replace(plan, rows=tuple(rows), costs=costs, best=best)


def estimate_stage_seconds(
    target: DecodingPace, drafted: DecodingPace, length: int, texts: int, gammas: Sequence[int], effort: PlanEffort
) -> dict[str, float]:
    """Seconds that each stage of a plan will take, by the pace of the target alone and that of rounds with the largest gamma."""
    many, most = BATCH_PASS_ROUNDS * target.each, gammas[-1]

    def drafting(gamma: int) -> DecodingPace:
        """Between the two paces, as far as the number of draft tokens lies between theirs; they count for the expected tokens too."""
        part = gamma / most
        first, each, tokens = (
            low + part * (high - low)
            for low, high in ((target.first, drafted.first), (target.each, drafted.each), (target.tokens, drafted.tokens))
        )
        return DecodingPace(first, each, tokens)

    weights = {WRITING: -(-texts // TEXTS_PER_BATCH) * length * many, OVER_ITS: 2 * texts * many, OVER_YOURS: 2 * texts * many}
    kinds = [target, *(drafting(gamma) for gamma in range(most + 1))]
    costs = (
        (effort.probes + WARM_RUNS) * sum(one.first + (WARM_ROUNDS + TIMED_ROUNDS) * one.each for one in kinds)
        if effort.probes
        else 0.0
    )
    if not effort.check:
        return weights | {COSTS: costs}
    paces = [drafting(gamma) for gamma in gammas]
    counting = sum(-(-texts // TEXTS_PER_BATCH) * length / one.tokens * (one.each + many) for one in paces)
    timed = (
        sum(one.text(length) for one in (target, *paces)) * max(min(texts, effort.timed), effort.runs) if effort.probes else 0.0
    )
    return weights | {COUNTING: counting, TIMING: costs + timed}


def _measure_plan(
    pair: LoadedPair,
    plan: SpeedPlan,
    ours: Texts,
    forecast: PlanForecast,
    effort: PlanEffort,
    tell: dict[str, Callable[..., None]],
) -> SpeedPlan:
    """The same openings decoded speculatively with other seeds: rounds counted for every gamma, then speed by the clock.

    Probes lie between measured texts, so what slows the machine down for a minute is in both the prediction and the measurement.
    """
    prompts = [prompt for prompt, _ in ours]
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
        forecast.measured(gamma, plan.length, count[gamma, plan.settings.rule], count[gamma, PLAIN_RULE] if other else None)
        for gamma in gammas
    ]
    if not effort.probes:
        return replace(plan, checked=tuple(found))
    picked = [prompts[place] for place in sorted({round(x) for x in np.linspace(0, len(prompts) - 1, effort.timed)})]
    probes = RoundProbes(pair, plan.settings, ours, gammas[-1])
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
    plan = _add_costs(plan, forecast, probes.curve())
    tokens = sum(map(len, parts)) * plan.length

    def rates(gamma: int) -> tuple[float, ...]:
        return tuple(len(part) * plan.length / spent for part, spent in zip(parts, clock.seconds(gamma), strict=True))

    predicted = {row.gamma: row for row in plan.rows}
    found = [
        replace(
            row,
            rate=rates(row.gamma),
            factor=clock.ratio(0, row.gamma),
            noise=sum(clock.kept(row.gamma)) / (tokens / predicted[row.gamma].tokens.value) - 1.0,
        )
        for row in found
    ]
    return replace(plan, checked=tuple(found), alone=rates(0))


def split_into_runs(prompts: Sequence[Ids], runs: int) -> list[Sequence[Ids]]:
    """The texts of each run: every text once in all runs together; with fewer texts than runs some come again."""
    return [prompts[run % len(prompts) :: runs] for run in range(runs)]


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
        own = replace(settings, gamma=gamma, seed=(settings.seed + 100 + lap.run) % 2**63)
        lap.keep(_count_rounds(pair, own, lap.item))

    clock = Clock(
        {gamma: partial(write, gamma) for gamma in gammas}, items=lambda run: parts[run - 1] if run > 0 else parts[0][:1]
    )
    return clock.run_until(len(parts), lambda share, run, key: on_progress(share), lambda share, run, item: between(share))


def _count_rounds(pair: LoadedPair, settings: Settings, prompt: Ids) -> int:
    """Write it; returns its rounds."""
    return sum(1 for _ in (decode_speculatively if settings.gamma else decode_target_only)(pair, settings, prompt))
