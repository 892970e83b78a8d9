"""How far the draws lie from the distribution, in total variation, and how far chance alone would take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from specviz.errors import EvidenceError
from specviz.statistics.findings import checked_counts, checked_distribution
from specviz.statistics.luck import Use, generator

HEAVY = 256  # cells that are drawn one by one in the null band
REPLICATES = 4000


class Band(NamedTuple):
    """Empirical TV of n draws from the distribution itself: its mean, its median, and the quantile ``level``."""

    mean: float
    median: float
    upper: float
    level: float


def total_variation(counts: Sequence[int] | np.ndarray, probs: Sequence[float] | np.ndarray) -> float:
    """Distance between the empirical distribution and the exact one: sum over outcomes of max(0, count / n - mass), in [0, 1].

    counts  (K,) whole, at least one draw in all
    probs     (K,) float64, exact mass of each. The outcomes that were drawn suffice: any other adds nothing to this sum.
            So masses may sum to less than 1
    """
    masses = np.asarray(probs, dtype=np.float64)
    drawn = checked_counts(counts, masses.size)
    if not masses.min() >= 0.0 or masses.sum() > 1.0 + 1e-8:
        raise EvidenceError(f"Masses must be at least 0 and sum to 1 at most, got a sum of {masses.sum():.10g}.")
    return float(np.maximum(0.0, drawn / drawn.sum() - masses).sum())


def tv_null_band(
    probs: Sequence[float] | np.ndarray, n: int, level: float = 0.99, *, seed: int = 0, replicates: int = REPLICATES
) -> Band:
    """What ``total_variation`` gives while the distribution is true: mean, median and upper quantile over n draws.

    probs    (K,) float64, sums to 1
    n      number of draws, at least 1
    level  of the upper quantile, in (0, 1)
    seed   of the replicates, which have a stream of their own

    The mean is exact: the mean deviation of a binomial count has a closed form (de Moivre 1730; Diaconis and Zabell 1991).
    Spread comes from replicates. The 256 heaviest cells are drawn as a multinomial, together with the number of draws that
    fall anywhere else; given that number, the many light cells add up to nearly a normal variable, with moments of Poisson
    counts given their total. So the cost does not grow with n, and hardly with K.
    """
    masses = checked_distribution(probs)
    if n < 1 or not 0.0 < level < 1.0:
        raise EvidenceError(f"A null band needs at least 1 draw and a level between 0 and 1, got {n} and {level:g}.")
    masses = np.sort(masses[masses > 0.0])[::-1] / masses.sum()
    luck = generator(seed, Use.NULL_BAND)
    heavy, light = masses[:HEAVY], masses[HEAVY:]
    drawn = luck.multinomial(n, np.append(heavy, max(0.0, 1.0 - heavy.sum())), size=replicates)
    deviation = np.abs(drawn[:, : len(heavy)] - n * heavy).sum(axis=1)
    if light.size:
        deviation = deviation + _light_deviation(n * light, drawn[:, -1], luck.standard_normal(replicates))
    distance = deviation / (2.0 * n)
    mean = float(mean_deviation(n, masses).sum() / (2.0 * n))
    median, upper = np.quantile(distance, [0.5, level])
    return Band(mean, float(median), float(upper), level)


def cell_band(probs: Sequence[float] | np.ndarray, n: int, level: float = 0.99) -> np.ndarray:
    """Where the share of each single cell lies with probability ``level`` or a little more while the distribution is true: (2, K).

    Central quantiles of the binomial distribution, cell by cell. Of 100 cells about one lies outside a band of .99, so a cell outside is no
    verdict; the tests are.
    """
    masses, tail = checked_distribution(probs), (1.0 - level) / 2.0
    return np.stack([stats.binom.ppf(tail, n, masses), stats.binom.isf(tail, n, masses)]) / n


def mean_deviation(n: int, masses: np.ndarray) -> np.ndarray:
    """Mean of |count - n p| for a binomial count, exactly: 2 v (1 - p) P(count = v) with v = floor(n p) + 1 (de Moivre 1730).

    masses (K,) float64 in [0, 1]; returns (K,).
    """
    above = np.minimum(np.floor(n * masses) + 1.0, n)  # n + 1 only where p is 1: there the mean deviation is 0 either way
    return 2.0 * above * (1.0 - masses) * stats.binom.pmf(above, n, masses)


def _light_deviation(expected: np.ndarray, total: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Sum of |count - expected| over the light cells, given how many draws fell into them: (replicates,).

    Poisson counts given their total: mean and variance by regression on the total (Holst 1972).
    """
    floor = np.floor(expected)
    log_mass = special.xlogy(floor + 1.0, expected) - expected - special.gammaln(floor + 1.0)
    mean = 2.0 * np.exp(log_mass)
    square_above = (
        expected**2 * stats.poisson.sf(floor - 2.0, expected)
        + expected * (1.0 - 2.0 * expected) * stats.poisson.sf(floor - 1.0, expected)
        + expected**2 * stats.poisson.sf(floor, expected)
    )
    covariance = (2.0 * square_above - expected).sum()
    variance = max(0.0, (expected - mean**2).sum() - covariance**2 / expected.sum())
    return mean.sum() + covariance / expected.sum() * (total - expected.sum()) + np.sqrt(variance) * normal
