"""From acceptance probabilities and costs to the rows of a plan, and from measured rounds to their gaps. Intervals by resampling texts; no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specviz.speed.acceptance import AcceptanceProbabilities, compute_expected_rounds
from specviz.speed.estimate import PERCENTILES, Estimate
from specviz.speed.records.plan import MeasuredRow, PlanRow, RoundCostCurve
from specviz.theory import LinearCost, best_gamma, expected_tokens, hazard_tokens, speed_factor, wall_clock_factor

RESAMPLES = 400
TOKENS_PER_PASS, TIMES = "tokens/pass", "times"  # units


class PlanForecast:
    """Everything that follows from the acceptance probabilities of texts, for several gammas.

    ours, own  probabilities over the target's texts and over the user's own (None: there is none); gammas  ascending, none above what they hold
    seed       of the resamples, the same for all; plain  over the target's texts under the token rule, if ``ours`` are of another rule
    """

    def __init__(
        self,
        ours: AcceptanceProbabilities,
        own: AcceptanceProbabilities | None,
        gammas: Sequence[int],
        seed: int = 0,
        plain: AcceptanceProbabilities | None = None,
    ):
        self.gammas = tuple(gammas)
        self.rounds = {gamma: compute_expected_rounds(ours, gamma) for gamma in self.gammas}
        self.own = {gamma: compute_expected_rounds(own, gamma) for gamma in self.gammas} if own is not None else {}
        self.plain = {gamma: compute_expected_rounds(plain, gamma) for gamma in self.gammas} if plain is not None else {}
        self.rng = np.random.default_rng(seed)
        self.texts = len(ours.accepted)
        self.weights = self._resamples(self.texts)  # the user's texts begin where the target's do: one draw is for both

    def _resamples(self, texts: int) -> np.ndarray:
        """(RESAMPLES, texts): how often each text is drawn."""
        return self.rng.multinomial(texts, np.full(texts, 1.0 / texts), RESAMPLES)

    def row(self, gamma: int) -> PlanRow:
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
            hazards=hazard_tokens(self.rounds[self.gammas[-1]].hazards, gamma),
            independent=expected_tokens(found.alpha, gamma),
            own_text=self.own[gamma].per_pass if self.own else None,
            alpha=found.alpha,
            gain=gain,
        )

    def positions(self) -> tuple[Estimate, ...]:
        """Acceptance rate at each position of a round at the largest gamma, among the draft tokens that are checked there.

        Ends before the first position that no round reaches.
        """
        longest = self.rounds[self.gammas[-1]]
        many = _divide_counts(self.weights @ longest.accepted, self.weights @ longest.tested)
        reached = int((longest.tested.sum(0) > 0.0).cumprod().sum())
        return tuple(Estimate.from_resamples(longest.hazards[j], many[:, j], self.texts) for j in range(reached))

    def factors(self, curve: RoundCostCurve) -> tuple[dict[int, Estimate], Estimate]:
        """Speed-ups by gamma, and the gamma that is best, over resamples of texts and of the probes' runs."""
        table = np.column_stack([curve.alone, np.array(curve.rounds), np.array(curve.first)])
        table /= np.exp(np.log(table).mean(1, keepdims=True))  # what slows down a whole run slows down all of its probes
        runs = self.rng.integers(0, len(table), (RESAMPLES, len(table)))
        costs, resampled = np.median(table, axis=0), np.median(table[runs], axis=1)
        found, many = {}, {}
        for gamma in self.gammas:
            many[gamma] = self._factor(gamma, self.weights, resampled)
            value = self._factor(gamma, np.ones((1, self.texts)), costs[None])[0]
            found[gamma] = Estimate.from_resamples(value, many[gamma], self.texts, TIMES)
        best = [best_gamma({gamma: float(many[gamma][k]) for gamma in self.gammas}) for k in range(RESAMPLES)]
        chosen = best_gamma({gamma: one.value for gamma, one in found.items()})
        low, high = np.percentile(best, PERCENTILES, method="nearest").tolist()
        return found, Estimate(float(chosen), float(low), float(high), self.texts)

    def _factor(self, gamma: int, weights: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """Seconds of the target alone over those of speculation, (K,), both with their first rounds, which read the prompts.

        weights  (K, B): how often each text counts; costs  (K, 2 G + 4): a token alone, rounds with 0 to G draft tokens, and the first rounds
        in the same order, in any unit of time
        """
        one, texts = self.rounds[gamma], weights.sum(1)
        alone, warm, first = costs[:, 0], costs[:, 1 : costs.shape[1] // 2], costs[:, costs.shape[1] // 2 :]
        longest = min(gamma, one.tokens - 1)  # draft tokens of a first round
        seconds = ((weights @ one.by_size) * warm[:, : gamma + 1]).sum(1)
        seconds += texts * (first[:, 1 + longest] - warm[:, longest])
        return texts * (one.tokens * alone + first[:, 0] - alone) / seconds

    def formulas(self, gamma: int, curve: RoundCostCurve) -> tuple[float, float]:
        """Speed-ups of plainer theory: Leviathan's formula at the measured c, and the hazards at a cost with a fixed part."""
        costs, alone, alpha = np.median(np.array(curve.rounds), axis=0), float(np.median(curve.alone)), self.rounds[gamma].alpha
        linear = LinearCost.fit({n: float(seconds) for n, seconds in enumerate(costs) if n})
        tokens = hazard_tokens(self.rounds[self.gammas[-1]].hazards, gamma)
        return wall_clock_factor(alpha, gamma, curve.c), speed_factor(tokens, linear.seconds(gamma), alone)

    def measured(self, gamma: int, tokens: int, rounds: np.ndarray, plain: np.ndarray | None = None) -> MeasuredRow:
        """Tokens per pass of measured texts, and the gap of every formula to them.

        tokens  of each text; rounds  (B,) that the texts took; plain  those under the token rule, if another rule was measured
        """
        count, picked = len(rounds), self._resamples(len(rounds))
        value, many = tokens * count / float(rounds.sum()), tokens * count / (picked @ rounds)
        row, one, longest = self.row(gamma), self.rounds[gamma], self.rounds[self.gammas[-1]]
        hazards = _divide_counts(self.weights @ longest.accepted, self.weights @ longest.tested)[:, :gamma]
        alphas = _divide_counts(self.weights @ one.accepted.sum(1), self.weights @ one.tested.sum(1))
        predicted = {
            "accepted draft tokens": (row.tokens.value, one.resample_tokens_per_pass(self.weights)),
            "hazards": (row.hazards, 1.0 + np.cumprod(hazards, axis=1).sum(1)),
            "independent": (row.independent, np.array([expected_tokens(alpha, gamma) for alpha in alphas])),
        }
        if self.own:
            predicted["own text"] = (self.own[gamma].per_pass, self.own[gamma].resample_tokens_per_pass(self.weights))
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
