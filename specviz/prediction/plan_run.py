"""Fills the record of a plan: texts of the target, one pass over them, probes of what rounds cost; and, where asked, the measurement."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from specviz.decoding.engine import decode, target_only
from specviz.errors import SettingsError
from specviz.measure.bench import drain, machine
from specviz.measure.clock import Clock, Contestant, Lap
from specviz.measure.estimate import Estimate
from specviz.models.pairs.loading import Pair
from specviz.prediction.cost_curve import Probes, Text
from specviz.prediction.forecast import Forecast
from specviz.prediction.plan import CostCurve, PlanRow, SpeedPlan
from specviz.prediction.predict import Ids, chances, openings, readable, refuse_unplanned, same_weights, written
from specviz.proposers.registry import opened
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.theory import operations
from specviz.verification.registry import rule_of

Watch = Callable[[float, str], None]
PLAIN = "token"  # the rule that another's gain is held against


@dataclass(frozen=True, slots=True)
class PlanEffort:
    """How much is done for a plan.

    texts, opening  continuations, and tokens of the user's text before each; ``Settings.length`` tokens follow
    probes          runs of the cost probes, 0 for a plan without speed
    check           whether rounds are measured as well, on other seeds; runs  of its clock, each over other texts, ``timed`` in all at most
    """

    texts: int = 64
    opening: int = 64
    probes: int = 45
    check: bool = False
    runs: int = 6
    timed: int = 64


def make_plan(
    pair: Pair,
    settings: Settings,
    text: str,
    gammas: Sequence[int],
    effort: PlanEffort = PlanEffort(),
    name: str = "",
    watch: Watch = lambda share, doing: None,
) -> SpeedPlan:
    """Predict, and measure if asked.

    settings  pair, proposer, distribution, seed and length of a continuation; gammas  ascending, from 1; name  of the text, for the record

    Raises SettingsError for a text, a pair or a proposer that nothing can be planned for.
    """
    refuse_unplanned(settings)
    if same_weights(pair):
        raise SettingsError(
            "draft", pair.name, "another model than the target: each draft token would cost the token that it saves (c = 1)"
        )
    ids = readable(pair, text, effort.opening, settings.length)
    own = openings(ids, effort.opening, settings.length, effort.texts)
    prompts, tell = [prompt for prompt, _ in own], _stages(watch, effort)
    tokens, _, _ = written(pair, settings, prompts, watch=lambda share: tell("the target writes", share))
    ours = list(zip(prompts, tokens, strict=True))
    forecast = Forecast(
        chances(pair, settings, ours, gammas[-1], watch=lambda share: tell("one pass over its texts", share)),
        chances(pair, settings, own, gammas[-1], of_target=False, watch=lambda share: tell("one pass over your text", share)),
        gammas,
        plain=None if settings.rule == PLAIN else chances(pair, replace(settings, rule=PLAIN), ours, gammas[-1]),
    )
    plan = SpeedPlan(
        settings=settings,
        text={"name": name, "tokens": len(ids), "sha256": hashlib.sha256(text.encode()).hexdigest()},
        openings=len(prompts),
        opening=effort.opening,
        length=settings.length,
        rows=_rows(pair, settings, forecast, gammas),
        machine=machine(pair),
        models=pair.describe(),
        date=datetime.now(UTC).strftime("%-d %B %Y"),
    )
    if effort.check:
        return _checked(pair, plan, ours, forecast, effort, tell)
    if not effort.probes:
        return plan
    probes = Probes(pair, settings, ours, gammas[-1]).until(effort.probes, lambda share: tell("costs", share))
    return _with_costs(plan, forecast, probes.curve())


def _rows(pair: Pair, settings: Settings, forecast: Forecast, gammas: Sequence[int]) -> tuple[PlanRow, ...]:
    rows = tuple(forecast.row(gamma) for gamma in gammas)
    if settings.proposer != "draft":
        return rows
    c_hat = pair.draft.num_parameters() / pair.target.num_parameters()
    return tuple(replace(row, operations=operations(row.tokens.value, row.gamma, c_hat)) for row in rows)


def _with_costs(plan: SpeedPlan, forecast: Forecast, costs: CostCurve) -> SpeedPlan:
    factors, best = forecast.factors(costs)
    rows = tuple(_priced(row, factors[row.gamma], forecast.formulas(row.gamma, costs)) for row in plan.rows)
    return replace(plan, rows=rows, costs=costs, best=best)


def _priced(row: PlanRow, found: Estimate, formulas: tuple[float, float]) -> PlanRow:
    return replace(row, factor=found, leviathan=formulas[0], linear=formulas[1])


def _stages(watch: Watch, effort: PlanEffort) -> Callable[[str, float], None]:
    """Shares of stages as one share of the whole; what a stage is worth was read off runs of the shipped pair."""
    worth = {"the target writes": 12, "one pass over its texts": 8, "one pass over your text": 8}
    if effort.check:
        worth |= {"counting rounds": 110, "timing": 190 if effort.probes else 0}
    else:
        worth |= {"costs": 30 if effort.probes else 0}
    before = {name: sum(list(worth.values())[:place]) for place, name in enumerate(worth)}
    return lambda name, share: watch((before[name] + worth[name] * share) / sum(worth.values()), name)


def _checked(
    pair: Pair, plan: SpeedPlan, ours: Sequence[Text], forecast: Forecast, effort: PlanEffort, tell: Callable[[str, float], None]
) -> SpeedPlan:
    """The same openings by the speculative decoder under other seeds: rounds counted for every gamma, then speed by the clock.

    Probes lie between measured texts: what slows the machine down for a minute is in the prediction and in what it is held against.
    """
    prompts = [prompt for prompt, _ in ours]
    lengths, other = [row.gamma for row in plan.rows], plan.settings.rule != PLAIN
    work = [(gamma, rule) for gamma in lengths for rule in ((plan.settings.rule, PLAIN) if other else (PLAIN,))]
    count: dict[tuple[int, str], np.ndarray] = {}
    for number, (gamma, rule) in enumerate(work):
        seed = (plan.settings.seed + 1 + lengths.index(gamma)) % 2**63
        asked = replace(plan.settings, gamma=gamma, rule=rule, seed=seed)
        _, count[gamma, rule], _ = written(
            pair, asked, prompts, True, lambda share, number=number: tell("counting rounds", (number + share) / len(work))
        )
    found = [
        forecast.checked(gamma, plan.length, count[gamma, plan.settings.rule], count[gamma, PLAIN] if other else None)
        for gamma in lengths
    ]
    if not effort.probes:
        return replace(plan, checked=tuple(found))
    picked = [prompts[place] for place in sorted({round(x) for x in np.linspace(0, len(prompts) - 1, effort.timed)})]
    probes = Probes(pair, plan.settings, ours, lengths[-1])
    parts = parts_of(picked, effort.runs)
    clock = timed(
        pair, plan.settings, (0, *lengths), parts, lambda share: tell("timing", share),
        between=lambda share: probes.until(round(effort.probes * share)),
    )  # fmt: skip
    plan = _with_costs(plan, forecast, probes.curve())
    texts = sum(map(len, parts))

    def rates(gamma: int) -> tuple[float, ...]:
        return tuple(len(part) * plan.length / spent for part, spent in zip(parts, clock.seconds(gamma), strict=True))

    found = [
        replace(
            row,
            rate=rates(row.gamma),
            factor=clock.ratio(0, row.gamma),
            luck=sum(clock.kept(row.gamma)) / (texts * plan.length / plan.row(row.gamma).tokens.value) - 1.0,
        )
        for row in found
    ]
    return replace(plan, checked=tuple(found), alone=rates(0))


def parts_of(prompts: Sequence[Ids], runs: int) -> list[Sequence[Ids]]:
    """The texts of each run: every text once in all runs together; with fewer texts than runs some come again."""
    return [prompts[run % len(prompts) :: runs] for run in range(runs)]


def timed(
    pair: Pair,
    settings: Settings,
    gammas: Sequence[int],
    parts: Sequence[Sequence[Ids]],
    watch: Callable[[float], None] = lambda share: None,
    between: Callable[[float], None] = lambda share: None,
) -> Clock[int]:
    """The clock of every gamma, 0 being the target alone, over the texts of each run; it keeps the rounds of each text.

    Each text is written by all gammas, one right after the other under the same seed, before the next text begins: a burst of other
    work meets all alike. A run of one text before them warms up. between: told after each text which share of the work is done.
    """

    def contestant(gamma: int) -> Contestant:
        def write(lap: Lap) -> None:
            own = replace(settings, gamma=gamma, seed=(settings.seed + 100 + lap.run) % 2**63)
            lap.keep(_one_text(pair, own, lap.item))

        return write

    clock = Clock({gamma: contestant(gamma) for gamma in gammas}, items=lambda run: parts[run - 1] if run > 0 else parts[0][:1])
    return clock.until(len(parts), lambda share, run, key: watch(share), lambda share, run, item: between(share))


def _one_text(pair: Pair, settings: Settings, prompt: Ids) -> int:
    """Write it; returns its rounds."""
    randomness = PhiloxRandomness(settings.seed)
    if settings.gamma == 0:
        return len(drain(target_only(pair.source(pair.target, settings), randomness, settings, prompt)))
    target, proposer = opened(pair, settings)
    return len(drain(decode(target, proposer, rule_of(settings), randomness, settings, prompt)))
