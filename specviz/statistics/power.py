"""What a test of a given size could have seen. Every verdict of 'consistent' is worth as much as these numbers.

A test of level alpha against a distribution looks at n draws in df + 1 cells of masses p. Under another distribution q Pearson's statistic is
close to a noncentral chi-square with noncentrality lambda = n * sum (q - p)^2 / p (Cohen 1988, chapter 7, whose w is
sqrt(lambda / n)). By Cauchy and Schwarz

    (2 TV)^2 = (sum |q - p|)^2 = (sum |q - p| / sqrt(p) * sqrt(p))^2 <= sum (q - p)^2 / p * sum p = lambda / n,

so among all q at one distance TV the test has least to see where |q - p| / p is the same in every cell: half of the mass
grows by the factor 1 + 2 TV, the other half shrinks by 1 - 2 TV. That alternative is the least favourable one, and every
other distribution as far away on the tested cells is seen with more power. What moves inside a pooled cell is not seen at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
from scipy import optimize, stats

from specviz.errors import EvidenceError
from specviz.statistics.findings import ALPHA, POWER


@lru_cache(maxsize=4096)
def noncentrality(df: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Lambda at which a chi-square test of level alpha with df degrees of freedom rejects with probability ``power``.

    df > 0, need not be whole; 0 < alpha < power < 1.
    """
    _check_rates(alpha, power)
    if df <= 0:
        raise EvidenceError(f"A chi-square test needs at least 1 degree of freedom, got {df:g}.")
    critical = stats.chi2.isf(alpha, df)
    high = 10.0 + 4.0 * sqrt(df)
    while stats.ncx2.sf(critical, df, high) < power:
        high *= 2.0
    return float(optimize.brentq(lambda value: stats.ncx2.sf(critical, df, value) - power, 1e-12, high))


def detectable_tv(df: float, n: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Least total variation distance on the tested cells that n draws show with ``power``: sqrt(lambda / 4n), at most 1."""
    _check_draws(n)
    return min(1.0, sqrt(noncentrality(df, alpha, power) / (4.0 * n)))


def draws_needed(tv: float, df: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Draws after which a distance ``tv`` on df + 1 cells is seen with ``power``: lambda / (4 tv^2), rounded up."""
    _check_distance(tv)
    return ceil(noncentrality(df, alpha, power) / (4.0 * tv * tv))


def affordable_df(tv: float, n: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Most degrees of freedom with which n draws still see ``tv``; 0 where even one is too many.

    More cells see finer differences and need more draws: lambda grows like the root of df. Known before any draw, so a
    partition may be made to measure (``Cells.of(..., most=affordable_df(...) + 1)``).
    """
    _check_distance(tv)
    _check_draws(n)
    target = 4.0 * n * tv * tv
    if noncentrality(1, alpha, power) > target:
        return 0
    low, high = 1, 2
    while noncentrality(high, alpha, power) <= target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if noncentrality(middle, alpha, power) <= target else (low, middle)
    return low


def equal_draws_needed(tv: float, power: float = POWER) -> int:
    """Draws after which, where one outcome has all the mass, another distribution at distance ``tv`` shows itself: the inverse of the next."""
    _check_distance(tv)
    return 1 if tv == 1.0 else ceil(np.log1p(-power) / np.log1p(-tv))


def detectable_impossible(n: float, power: float = POWER) -> float:
    """Least mass on outcomes that should never appear, of which n draws show one or more with ``power``: 1 - (1 - power)^(1/n)."""
    _check_draws(n)
    return -float(np.expm1(np.log1p(-power) / n))


def detectable_share(mean: float, variance: float, n: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Least change of a mean share that n draws show with ``power``, in the harder direction; normal approximation.

    mean, variance  of the number of successes under the exact distribution: sum p_i and sum p_i (1 - p_i)

    The two-sided test rejects beyond z(alpha/2) * sqrt(variance) + 1/2. Under a mean share s the count varies most where all
    draws have the same one, n s (1 - s), and that is what stands here. Returns 1 where no change is seen.
    """
    _check_rates(alpha, power)
    _check_draws(n)
    share, edge = mean / n, (stats.norm.isf(alpha / 2.0) * sqrt(max(variance, 0.0)) + 1.0) / n
    z = stats.norm.isf(1.0 - power)

    def short(delta: float, sign: int) -> float:
        moved = share + sign * delta
        return delta - edge - z * sqrt(max(0.0, moved * (1.0 - moved)) / n)

    found = []
    for sign, room in ((1, 1.0 - share), (-1, share)):
        if room > 0.0:
            found.append(float(optimize.brentq(short, 0.0, room, args=(sign,))) if short(room, sign) > 0.0 else 1.0)
    return max(found, default=1.0)


def detectable_distance(n: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Largest gap of distribution functions that a Kolmogorov-Smirnov test of n values sees with ``power``, at least.

    The test rejects when the empirical function leaves the true one by the critical distance c somewhere. Where the gap d
    is reached, the empirical function is a share of n draws, with standard deviation at most 1 / (2 sqrt(n)); so power is
    reached from d = c + z / (2 sqrt(n)) on, whatever the rest of the distribution does. A set of values counts d towards TV.
    """
    _check_rates(alpha, power)
    _check_draws(n)
    return min(1.0, float(stats.kstwo.isf(alpha, int(n)) + stats.norm.isf(1.0 - power) / (2.0 * sqrt(n))))


def pooled_draws(first: float, second: float) -> float:
    """Two samples of a and b draws see what one of a b / (a + b) draws sees against an exact distribution."""
    _check_draws(first)
    _check_draws(second)
    return first * second / (first + second)


def corrected(alpha: float, tests: int) -> float:
    """Level of each of several tests so that all together raise a false alarm with probability alpha at most (Bonferroni)."""
    if tests < 1:
        raise EvidenceError(f"A family must have at least 1 test, got {tests}.")
    return alpha / tests


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values of a family, in the order given; compare each with alpha (Holm 1979, step-down Bonferroni).

    The smallest is multiplied by the number of tests, the next by one less, and so on; none falls below an earlier one.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not values.size:
        raise EvidenceError("A family must have at least 1 test, got 0.")
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(values.size, 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return tuple(adjusted.tolist())


def _check_rates(alpha: float, power: float) -> None:
    if not 0.0 < alpha < power < 1.0:
        raise EvidenceError(f"0 < false-alarm rate < power < 1 must hold, got {alpha:g} and {power:g}.")


def _check_draws(n: float) -> None:
    if not n > 0:
        raise EvidenceError(f"The number of draws must be above 0, got {n:g}.")


def _check_distance(tv: float) -> None:
    if not 0.0 < tv <= 1.0:
        raise EvidenceError(f"A total variation distance to be seen must be above 0 and at most 1, got {tv:g}.")
