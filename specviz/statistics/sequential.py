"""Looking while draws accumulate, legally: each look has its own level, and the levels add up to alpha.

The page's rule is alpha spending at looks fixed beforehand (Lan and DeMets 1983, spent by a union bound): n = n0 * 2^k draws
at look k, level alpha / ((k + 1)(k + 2)), the last look takes what is left. Three reasons for it:

- It serves every test of this package, each with the power statement it has anyway, at the level of the look.
- It costs little. The level falls by 1 / k^2 only, and a chi-square's noncentrality grows with log(1 / level): at the tenth
  look of 50 degrees of freedom the detectable distance is 14% larger than in one test at the same n.
- Draws double from look to look, so a mistake is found after little more than twice the draws that are needed.

The e-process below may be looked at after every draw and needs no plan, but pays for its prior, about half a log(n) for
each cell: with two or three cells it rejects after about as many draws as the looks do, with 50 cells after four to five
times as many, with 1,000 after almost twenty times (least favourable alternatives; test_statistics_sequential.py repeats the
comparison). So it serves where the very draw is asked for and cells are few: "at which draw is it caught?"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from specviz.errors import EvidenceError
from specviz.statistics.findings import ALPHA, POWER, checked_counts, checked_distribution
from specviz.statistics.power import corrected, detectable_tv


@dataclass(frozen=True, slots=True)
class Looks:
    """When one may look at accumulating draws, and what each look may spend. Fixed before the first draw.

    first   draws at look 0, at least 1; look k has first * factor^k
    looks   number of looks, at least 1
    alpha   false-alarm rate of all looks together
    tests   tests made at each look; they share its level equally
    factor  how many times the draws of one look the next one has, at least 2
    """

    first: int
    looks: int
    alpha: float = ALPHA
    tests: int = 1
    factor: int = 2

    def __post_init__(self) -> None:
        if self.first < 1 or self.looks < 1:
            raise EvidenceError(f"Looks must be at least 1, the first after at least 1 draw, got {self.looks} and {self.first}.")
        assert self.factor >= 2

    def n(self, look: int) -> int:
        """Draws at a look."""
        return self.first * self.factor**look

    @property
    def last(self) -> int:
        """Draws at the last look."""
        return self.n(self.looks - 1)

    def level(self, look: int) -> float:
        """Level of each test at a look. Those of all looks and tests sum to alpha: 1/2 + 1/6 + 1/12 + ... , the rest at the end."""
        assert 0 <= look < self.looks
        share = 1.0 / (look + 1) if look == self.looks - 1 else 1.0 / ((look + 1) * (look + 2))
        return corrected(self.alpha * share, self.tests)

    def due(self, drawn: int) -> int | None:
        """The latest look that so many draws have reached; None before the first. Test the first ``n(look)`` draws, no others."""
        if drawn < self.first:
            return None
        return max(look for look in range(self.looks) if self.n(look) <= drawn)

    def detectable_tv(self, look: int, df: float, power: float = POWER) -> float:
        """What a chi-square test with df degrees of freedom sees at a look, at its level."""
        return detectable_tv(df, self.n(look), self.level(look), power)

    def adjusted(self, p_values: Sequence[float]) -> float:
        """One p-value for all looks made so far, one test at each: compare it with alpha. The least p / (share of alpha)."""
        return min(1.0, min(p * self.alpha / (self.level(look) * self.tests) for look, p in enumerate(p_values)))


def dirichlet_e_value(
    counts: Sequence[int] | np.ndarray, probs: Sequence[float] | np.ndarray, concentration: float | None = None
) -> float:
    """Log of an e-value against an exact distribution: reject as soon as it reaches log(1 / alpha), after any number of draws.

    counts         (C,) draws per cell so far
    probs            (C,) float64, exact mass of each. A draw in a cell of mass 0 gives infinity
    concentration  of the prior, above 0, fixed before the first draw; the number of cells if not given

    The likelihood of the draws under distributions drawn from a Dirichlet prior around the exact distribution, over their likelihood under the
    exact distribution itself. While the distribution is true this ratio is a martingale of mean 1, which reaches 1 / alpha at any time with
    probability alpha at most (Ville 1939).
    """
    masses = checked_distribution(probs)
    seen = checked_counts(counts, masses.size)
    if seen[masses == 0.0].any():
        return float("inf")
    seen, masses = seen[masses > 0.0], masses[masses > 0.0]
    weight = float(len(masses)) if concentration is None else concentration
    if not weight > 0.0:
        raise EvidenceError(f"The prior's concentration must be above 0, got {weight:g}.")
    prior = weight * masses
    mixture = special.gammaln(weight) - special.gammaln(weight + seen.sum())
    mixture += (special.gammaln(prior + seen) - special.gammaln(prior)).sum()
    return float(mixture - special.xlogy(seen, masses).sum())
