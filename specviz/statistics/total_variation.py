"""Total variation distance between a sample and the exact distribution, and its range due to sampling noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from specviz.errors import EvidenceError
from specviz.statistics.finding import check_counts, check_distribution
from specviz.statistics.random_streams import RandomUse, make_generator

HEAVY = 256  # cells that the null band simulates one by one
REPLICATES = 4000


class NullBand(NamedTuple):
    """Empirical TV of n draws from the exact distribution itself: its mean, its median, and the quantile ``level``."""

    mean: float
    median: float
    upper: float
    level: float


def compute_total_variation(counts: Sequence[int] | np.ndarray, probs: Sequence[float] | np.ndarray) -> float:
    """Distance between the empirical distribution and the exact one: sum over outcomes of max(0, count / n - mass), in [0, 1].

    ``counts``: (K,) whole, at least one draw in all. ``probs``: (K,) float64, exact mass of each outcome. Only drawn outcomes are
    needed, since any other adds nothing to the sum; so masses may sum to less than 1.
    """
    masses = np.asarray(probs, dtype=np.float64)
    drawn = check_counts(counts, masses.size)
    if not masses.min() >= 0.0 or masses.sum() > 1.0 + 1e-8:
        raise EvidenceError(f"Masses must be at least 0 and sum to 1 at most, got a sum of {masses.sum():.10g}.")
    return float(np.maximum(0.0, drawn / drawn.sum() - masses).sum())


def compute_null_band(
    probs: Sequence[float] | np.ndarray, n: int, level: float = 0.99, *, seed: int = 0, replicates: int = REPLICATES
) -> NullBand:
    """Sampling noise of ``total_variation``: its mean, median and upper quantile for n draws from the exact distribution.

    ``probs``: (K,) float64, sums to 1. ``n``: number of draws, at least 1. ``level``: of the upper quantile, in (0, 1). ``seed``:
    of the replicates, which have their own random stream. ``replicates``: number of simulated samples.

    The mean is exact: the mean deviation of a binomial count has a closed form (de Moivre 1730; Diaconis and Zabell 1991). Median
    and quantile come from replicates. The 256 heaviest cells are drawn as a multinomial, together with the number of draws in all
    other cells. Given that number, the sum over the many light cells is nearly normal, with the moments of Poisson counts given
    their total. So the cost does not depend on n, and hardly on K.
    """
    masses = check_distribution(probs)
    if n < 1 or not 0.0 < level < 1.0:
        raise EvidenceError(f"A null band needs at least 1 draw and a level between 0 and 1, got {n} and {level:g}.")
    return _simulate_null_band((np.sort(masses[masses > 0.0])[::-1] / masses.sum()).tobytes(), n, level, seed, replicates)


@lru_cache(maxsize=32)  # a certificate and its check, or two pictures of the same samples, ask for the same band
def _simulate_null_band(sorted_masses: bytes, n: int, level: float, seed: int, replicates: int) -> NullBand:
    masses, random = np.frombuffer(sorted_masses), make_generator(seed, RandomUse.NULL_BAND)
    heavy, light = masses[:HEAVY], masses[HEAVY:]
    drawn = random.multinomial(n, np.append(heavy, max(0.0, 1.0 - heavy.sum())), size=replicates)
    deviation = np.abs(drawn[:, : len(heavy)] - n * heavy).sum(axis=1)
    if light.size:
        deviation = deviation + _sum_light_deviation(n * light, drawn[:, -1], random.standard_normal(replicates))
    distance = deviation / (2.0 * n)
    mean = float(compute_mean_deviation(n, masses).sum() / (2.0 * n))
    median, upper = np.quantile(distance, [0.5, level])
    return NullBand(mean, float(median), float(upper), level)


def compute_cell_bands(probs: Sequence[float] | np.ndarray, n: int, level: float = 0.99) -> np.ndarray:
    """Sampling noise of each cell's frequency, (2, K): it lies within with probability ``level`` or a little more.

    Central quantiles of the binomial distribution, cell by cell. Of 100 cells about one lies outside a band of 0.99, so one cell
    outside proves nothing; the tests give the verdict.
    """
    masses, tail = check_distribution(probs), (1.0 - level) / 2.0
    return np.stack([stats.binom.ppf(tail, n, masses), stats.binom.isf(tail, n, masses)]) / n


def compute_mean_deviation(n: int, masses: np.ndarray) -> np.ndarray:
    """Mean of |count - n p| for a binomial count, exactly: 2 v (1 - p) P(count = v) with v = floor(n p) + 1 (de Moivre 1730).

    masses (K,) float64 in [0, 1]; returns (K,).
    """
    above = np.minimum(np.floor(n * masses) + 1.0, n)  # would be n + 1 only for p = 1, where the mean deviation is 0 anyway
    return 2.0 * above * (1.0 - masses) * stats.binom.pmf(above, n, masses)


def _sum_light_deviation(expected: np.ndarray, total: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Sum of |count - expected| over the light cells, given the number of draws in them: (replicates,).

    For Poisson counts given their total, mean and variance follow by regression on the total (Holst 1972).
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
