"""From chances and costs to the rows of a plan, and from measured rounds to its gaps; intervals by resampling texts. numpy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specviz.measure.estimate import TAILS, Estimate
from specviz.prediction.accepted_count import Chances, Rounds, rounds
from specviz.prediction.plan import Checked, CostCurve, PlanRow
from specviz.theory import LinearCost, best_gamma, expected_tokens, factor, hazard_tokens, wall_clock_factor

RESAMPLES = 400
PER_PASS, TIMES = "tokens/pass", "times"  # units


class Forecast:
    """Everything that follows from the chances of texts, for several gammas.

    ours, own  chances over the target's texts and over the user's own; gammas  ascending, none above what the chances hold
    seed       of the resamples, the same for all; plain  over the target's texts under the token rule, where ``ours`` are of another
    """

    def __init__(self, ours: Chances, own: Chances, gammas: Sequence[int], seed: int = 0, plain: Chances | None = None):
        self.gammas = tuple(gammas)
        self.rounds = {gamma: rounds(ours, gamma) for gamma in self.gammas}
        self.own = {gamma: rounds(own, gamma) for gamma in self.gammas}
        self.plain = {gamma: rounds(plain, gamma) for gamma in self.gammas} if plain is not None else {}
        self.dice = np.random.default_rng(seed)
        texts = len(ours.kept)
        self.weights = self.dice.multinomial(texts, np.full(texts, 1.0 / texts), RESAMPLES)  # how often each text is drawn

    def row(self, gamma: int) -> PlanRow:
        """Tokens per pass at one gamma by every formula, without costs."""
        found = self.rounds[gamma]
        return PlanRow(
            gamma,
            tokens=Estimate.of_resamples(found.per_pass, self.resampled(gamma), len(found.count), PER_PASS),
            hazards=hazard_tokens(self.hazards(), gamma),
            independent=expected_tokens(found.alpha, gamma),
            own_text=self.own[gamma].per_pass,
            alpha=found.alpha,
            gain=self._gain(found, self.plain[gamma]) if self.plain else None,
        )

    def _gain(self, found: Rounds, plain: Rounds) -> Estimate:
        """Tokens per pass above the token rule's, both over the same texts in every resample."""
        many = [one.tokens * len(one.count) / (self.weights @ one.count) for one in (found, plain)]
        return Estimate.of_resamples(found.per_pass - plain.per_pass, many[0] - many[1], len(found.count), PER_PASS)

    def resampled(self, gamma: int) -> np.ndarray:
        """Tokens per pass in each resample, (RESAMPLES,)."""
        found = self.rounds[gamma]
        return found.tokens * len(found.count) / (self.weights @ found.count)

    def hazards(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Of each depth at the largest gamma, (G,); or in each resample, (G, RESAMPLES)."""
        longest = self.rounds[self.gammas[-1]]
        if weights is None:
            return np.array(longest.hazards)
        tested, kept = weights @ longest.tested, weights @ longest.kept
        return np.divide(kept, tested, out=np.zeros_like(kept), where=tested > 0.0).T

    def factors(self, curve: CostCurve) -> tuple[dict[int, Estimate], Estimate]:
        """Speed-ups by gamma, and the gamma that is best, over resamples of texts and of the probes' runs."""
        table = np.column_stack([curve.alone, np.array(curve.rounds), np.array(curve.first)])
        table /= np.exp(np.log(table).mean(1, keepdims=True))  # a machine that is slower for a run is so for all of its probes
        runs = self.dice.integers(0, len(table), (RESAMPLES, len(table)))
        costs, resampled = np.median(table, axis=0), np.median(table[runs], axis=1)
        plain = np.ones((1, len(self.weights[0])))
        found, many = {}, {}
        for gamma in self.gammas:
            many[gamma] = self._factor(gamma, self.weights, resampled)
            value = self._factor(gamma, plain, costs[None])[0]
            found[gamma] = Estimate.of_resamples(value, many[gamma], len(self.weights[0]), TIMES)
        best = [best_gamma({gamma: float(many[gamma][k]) for gamma in self.gammas}) for k in range(RESAMPLES)]
        chosen = best_gamma({gamma: one.value for gamma, one in found.items()})
        low, high = np.percentile(best, TAILS, method="nearest").tolist()
        return found, Estimate(float(chosen), float(low), float(high), len(self.weights[0]))

    def _factor(self, gamma: int, weights: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """Seconds of the target alone over those of speculation, (K,), both with their first rounds, which read the prompts.

        weights  (K, B): how often each text counts; costs  (K, 2 G + 4): a token alone, rounds with 0 to G draft tokens, the first rounds alike,
        in any unit of time
        """
        one, texts = self.rounds[gamma], weights.sum(1)
        alone, warm, first = costs[:, 0], costs[:, 1 : costs.shape[1] // 2], costs[:, costs.shape[1] // 2 :]
        longest = min(gamma, one.tokens - 1)  # draft tokens of a first round
        seconds = ((weights @ one.by_size) * warm[:, : gamma + 1]).sum(1)
        seconds += texts * (first[:, 1 + longest] - warm[:, longest])
        return texts * (one.tokens * alone + first[:, 0] - alone) / seconds

    def formulas(self, gamma: int, curve: CostCurve) -> tuple[float, float]:
        """Speed-ups of plainer theory: Leviathan's formula at the measured c, and the hazards at a cost with a fixed part."""
        costs, alone, alpha = np.median(np.array(curve.rounds), axis=0), float(np.median(curve.alone)), self.rounds[gamma].alpha
        linear = LinearCost.fitted({n: float(seconds) for n, seconds in enumerate(costs) if n})
        tokens = hazard_tokens(self.hazards(), gamma)
        return wall_clock_factor(alpha, gamma, curve.c), factor(tokens, linear.seconds(gamma), alone)

    def checked(self, gamma: int, tokens: int, measured: np.ndarray, plain: np.ndarray | None = None) -> Checked:
        """Measured rounds (B,) of texts of so many tokens, and the gap of every formula to them. plain: rounds of the token rule."""
        picked = self.dice.multinomial(len(measured), np.full(len(measured), 1.0 / len(measured)), RESAMPLES)
        value, many = tokens * len(measured) / float(measured.sum()), tokens * len(measured) / (picked @ measured)
        row, one = self.row(gamma), self.rounds[gamma]
        hazards = self.hazards(self.weights)
        alphas = self._alphas(one)
        predicted = {
            "accepted draft tokens": (row.tokens.value, self.resampled(gamma)),
            "hazards": (row.hazards, 1.0 + np.cumprod(hazards[:gamma], axis=0).sum(0)),
            "independent": (row.independent, np.array([expected_tokens(alpha, gamma) for alpha in alphas])),
            "own text": (row.own_text, self._own(gamma)),
        }
        count = len(measured)
        gaps = {
            name: Estimate.of_resamples(one / value - 1.0, others / many - 1.0, count)
            for name, (one, others) in predicted.items()
        }
        gain = None
        if plain is not None:
            below = tokens * count / float(plain.sum()), tokens * count / (picked @ plain)
            gain = Estimate.of_resamples(value - below[0], many - below[1], count, PER_PASS)
        return Checked(gamma, Estimate.of_resamples(value, many, count, PER_PASS), gaps, gain=gain)

    def _alphas(self, one: Rounds) -> np.ndarray:
        tested, kept = self.weights @ one.tested.sum(1), self.weights @ one.kept.sum(1)
        return np.divide(kept, tested, out=np.zeros_like(kept), where=tested > 0.0)

    def _own(self, gamma: int) -> np.ndarray:
        """Tokens per pass of the user's text read on, in each resample; its texts begin where the target's do."""
        own = self.own[gamma]
        return own.tokens * len(own.count) / (self.weights @ own.count)
