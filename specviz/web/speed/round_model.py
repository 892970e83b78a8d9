"""What a round costs and brings: the model behind the sliders of How fast?, which begins at the timed costs of a pair. Plain records.

    speed = (1 + alpha + ... + alpha^gamma) / (gamma c + pass + rest)

All costs are in passes: the time of one token of target-only sampling. Where a speed was measured, alpha is the rate at which the formula
gives the counted tokens of a round, and the rest is what remains of its time beside drafting and the target's pass. So the model begins
at the measured speed. A single draft token costs more than a third of three: what timed drafting differs from gamma c is part of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from specviz.settings import GAMMA_MAX
from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import ON_RECORD, CostModel, load_cost_models
from specviz.speed.records.plan import SpeedPlan
from specviz.theory import compute_expected_tokens, compute_wall_clock_factor, find_acceptance_rate

GAMMAS = range(1, GAMMA_MAX + 1)
MEASURED, PREDICTED, COMPUTED, UNKNOWN = (
    "measured",
    "predicted",
    "computed",
    "not timed",
)  # how the speed at the beginning is known


@dataclass(frozen=True, slots=True)
class RoundParts:
    """One round, in passes: each of its draft steps, the target's pass, and the rule with the work between passes."""

    gamma: int
    step: float
    target_pass: float
    rest: float

    @property
    def cost(self) -> float:
        return self.gamma * self.step + self.target_pass + self.rest


@dataclass(frozen=True, slots=True)
class RoundModel:
    """The model at the place where it begins.

    Attributes:
        alpha, c, gamma: Where the sliders begin.
        passes: Cost of the pass that checks so many draft tokens, for every gamma.
        rest: What a round takes besides drafting and that pass.
        drafting: By gamma, what timed drafting takes beyond gamma draft steps at the c of the beginning; may be below 0.
        kind: How the speed at the beginning is known: MEASURED, PREDICTED, COMPUTED or UNKNOWN.
        machine: Of the costs, as it is named in a sentence.
        origin: Where the numbers come from, in a sentence.
        batches: Of the same machine, which say how costs grow with the number of texts; None: only one text was timed.
    """

    alpha: float
    c: float
    gamma: int
    passes: Mapping[int, float]
    rest: float
    drafting: Mapping[int, float]
    kind: str
    machine: str
    origin: str
    batches: BatchSpeeds | None = None

    def compute_parts(self, gamma: int, c: float, texts: int = 1) -> RoundParts:
        """A round of so many texts, in passes over one token of each of them."""
        drafting = target_pass = rule = 1.0
        if self.batches is not None and texts != 1:
            drafting, target_pass, rule = (
                self.batches.compare_texts(part, texts, gamma) for part in ("drafting", "passes", "rule")
            )
        rest = max(0.0, self.rest * rule + self.drafting.get(gamma, 0.0) * drafting)
        return RoundParts(gamma, c * drafting, self.passes[gamma] * target_pass, rest)

    def compute_speed(self, alpha: float, c: float, gamma: int, texts: int = 1) -> float:
        """Times as fast as target-only sampling."""
        return compute_expected_tokens(alpha, gamma) / self.compute_parts(gamma, c, texts).cost

    def find_best_gamma(self, alpha: float, c: float, texts: int = 1) -> tuple[int, float]:
        """The gamma with the highest speed, the smallest among equals, and that speed."""
        speeds = {gamma: self.compute_speed(alpha, c, gamma, texts) for gamma in GAMMAS}
        best = max(speeds, key=lambda gamma: speeds[gamma])
        return best, speeds[best]

    def compute_paper_speed(self, alpha: float, c: float, gamma: int) -> float:
        """What Leviathan's formula gives: no rest, and every pass takes as long as one over a single token."""
        return compute_wall_clock_factor(alpha, gamma, c)


def build_headline_model(batches: BatchSpeeds | None) -> RoundModel:
    """Of the shipped pair on the machine of the headline, at temperature 1. Other passes are longer in proportion to those of ``batches``."""
    gamma, found = headline.load_headline().gamma, headline.get_round("1")
    passes = {one: found.target_pass * (_interpolate_pass(batches, one) / _interpolate_pass(batches, gamma)) for one in GAMMAS}
    step = found.drafting / gamma
    c = round(step, 2)  # as its slider shows it; what is left of a step counts as drafting beyond gamma c
    beyond = {} if batches is None else compare_drafting(batches.list_part("drafting"), gamma)
    drafting = {one: beyond.get(one, 0.0) + one * (step - c) for one in GAMMAS}
    return RoundModel(
        find_acceptance_rate(found.tokens, gamma), c, gamma, passes, found.rest, drafting, MEASURED, "two CPU cores",
        f"{headline.describe_interval('1').rstrip('.')}; {headline.load_headline().runs} interleaved runs, {headline.MACHINE}.", batches,
    )  # fmt: skip


def _interpolate_pass(batches: BatchSpeeds | None, gamma: int) -> float:
    """A pass over gamma + 1 tokens of one text, in passes over one token; beyond the longest one of batches as the cost model of that machine grows."""
    if batches is None:
        return 1.0
    longest, costs = min(gamma, batches.gammas[-1]), load_cost_models().get(ON_RECORD)
    growth = 1.0 if costs is None else costs.compute_pass(1 + gamma) / costs.compute_pass(1 + longest)
    return batches.interpolate_pass_cost(batches.rows[0], longest) * growth


def build_plan_model(plan: SpeedPlan, batches: BatchSpeeds | None, machine: str, origin: str) -> RoundModel:
    """Of the pair of a plan, at its best gamma, or the nearest to a gain; without costs every pass counts as 1."""
    costs = plan.costs
    if costs is None:
        row = plan.rows[min(2, len(plan.rows) - 1)]
        alpha = find_acceptance_rate(row.tokens.value, row.gamma)
        return build_unknown_model(alpha, row.gamma)
    gamma = int(plan.best.value) if plan.best and plan.best.value else max(plan.rows, key=lambda one: one.speedup.value).gamma
    row = next(one for one in plan.rows if one.gamma == gamma)
    timed = {one.gamma: costs.compute_part("target", one.gamma) for one in plan.rows}
    drafting, cost = costs.compute_part("draft", gamma), row.tokens.value / row.speedup.value
    if (shorter := (cost - drafting) / timed[gamma]) < 1.0:  # a method that often drafts fewer tokens
        timed = {one: shorter * value for one, value in timed.items()}
    return RoundModel(
        find_acceptance_rate(row.tokens.value, gamma), drafting / gamma, gamma, extend_passes(timed),
        max(0.0, cost - drafting - timed[gamma]), compare_drafting({one.gamma: costs.compute_part("draft", one.gamma) for one in plan.rows}, gamma),
        PREDICTED, machine, origin, batches,
    )  # fmt: skip


def build_unknown_model(alpha: float = 0.5, gamma: int = 3, c: float = 0.2) -> RoundModel:
    """Of a pair that was not timed: places for the sliders, and the costs of Leviathan's formula."""
    return RoundModel(alpha, c, gamma, dict.fromkeys(GAMMAS, 1.0), 0.0, {}, UNKNOWN, "a machine", "")


def build_machine_model(pair: RoundModel, costs: CostModel, draft_layers: int | None) -> RoundModel:
    """The tokens of a pair with the costs of another machine, at the pair's own gamma, so that its speeds of two machines differ by the costs alone."""
    draft = costs.find_draft(draft_layers)
    unit = costs.target_only
    passes = {gamma: costs.compute_pass(1 + gamma) / unit for gamma in GAMMAS}
    c = draft.step / unit
    return RoundModel(pair.alpha, c, pair.gamma, passes, draft.rest / unit, {}, COMPUTED, costs.title, costs.describe())


def extend_passes(timed: Mapping[int, float]) -> dict[int, float]:
    """Costs for every gamma: beyond the last timed one along the line from no draft token, which costs one pass."""
    last = max(timed)
    slope = max(0.0, timed[last] - 1.0) / last
    return {gamma: timed.get(gamma, timed[last] + slope * (gamma - last)) for gamma in GAMMAS}


def compare_drafting(timed: Mapping[int, float], gamma: int) -> dict[int, float]:
    """Timed drafting minus as many steps as at ``gamma``, for every gamma: linear between timed ones, constant beyond the last."""
    gammas, step = sorted(timed), timed[gamma] / gamma
    return {one: float(np.interp(one, gammas, [timed[n] - n * step for n in gammas])) for one in GAMMAS}
