"""The power of a test of a given size. A verdict of "consistent" means no more than these numbers say.

A test of level alpha compares n draws in df + 1 cells with their masses p. Under another distribution q, Pearson's statistic is
close to a noncentral chi-square with noncentrality lambda = n * sum (q - p)^2 / p (Cohen 1988, chapter 7, whose w is
sqrt(lambda / n)). By Cauchy and Schwarz

    (2 TV)^2 = (sum |q - p|)^2 = (sum |q - p| / sqrt(p) * sqrt(p))^2 <= sum (q - p)^2 / p * sum p = lambda / n,

so among all q at one distance TV, lambda is smallest if |q - p| / p is the same in every cell: half of the mass grows by the
factor 1 + 2 TV, the other half shrinks by 1 - 2 TV. This is the least favorable alternative; every other distribution that is as
far away on the tested cells is detected with more power. A change inside a pooled cell is not detected at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
from scipy import optimize, stats

from specviz.errors import EvidenceError
from specviz.statistics.finding import ALPHA, POWER


@lru_cache(maxsize=4096)
def compute_noncentrality(df: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The lambda at which a chi-square test of level alpha with df degrees of freedom rejects with probability ``power``.

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


def find_detectable_tv(df: float, n: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Smallest total variation distance on the tested cells that n draws detect with ``power``: sqrt(lambda / 4n), at most 1."""
    _check_draws(n)
    return min(1.0, sqrt(compute_noncentrality(df, alpha, power) / (4.0 * n)))


def count_draws_needed(tv: float, df: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Number of draws that detect a distance ``tv`` on df + 1 cells with ``power``: lambda / (4 tv^2), rounded up."""
    _check_distance(tv)
    return ceil(compute_noncentrality(df, alpha, power) / (4.0 * tv * tv))


def compute_affordable_df(tv: float, n: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Most degrees of freedom with which n draws still detect ``tv``; 0 if even one is too many.

    More cells show finer differences but need more draws: lambda grows like the square root of df. The result is known before any
    draw, so a partition may be chosen by it.
    """
    _check_distance(tv)
    _check_draws(n)
    target = 4.0 * n * tv * tv
    if compute_noncentrality(1, alpha, power) > target:
        return 0
    low, high = 1, 2
    while compute_noncentrality(high, alpha, power) <= target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if compute_noncentrality(middle, alpha, power) <= target else (low, middle)
    return low


def count_equality_draws_needed(tv: float, power: float = POWER) -> int:
    """Number of draws that detect a distance ``tv`` if one outcome has all the mass: the inverse of ``detectable_impossible``."""
    _check_distance(tv)
    return 1 if tv == 1.0 else ceil(np.log1p(-power) / np.log1p(-tv))


def find_detectable_impossible(n: float, power: float = POWER) -> float:
    """Smallest mass on impossible outcomes of which n draws contain one or more with ``power``: 1 - (1 - power)^(1/n)."""
    _check_draws(n)
    return -float(np.expm1(np.log1p(-power) / n))


def find_detectable_rate(mean: float, variance: float, n: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Smallest change of a mean rate that n draws detect with ``power``, in the harder direction; normal approximation.

    ``mean``, ``variance``: of the number of successes under the exact distribution: sum p_i and sum p_i (1 - p_i).

    The two-sided test rejects beyond z(alpha/2) * sqrt(variance) + 1/2. With a mean rate s, the count varies most if all draws
    have the same rate, with variance n s (1 - s); that variance is used here. Returns 1 if no change is detected.
    """
    _check_rates(alpha, power)
    _check_draws(n)
    rate, edge = mean / n, (stats.norm.isf(alpha / 2.0) * sqrt(max(variance, 0.0)) + 1.0) / n
    z = stats.norm.isf(1.0 - power)

    def compute_margin(delta: float, sign: int) -> float:
        changed = rate + sign * delta
        return delta - edge - z * sqrt(max(0.0, changed * (1.0 - changed)) / n)

    found = []
    for sign, limit in ((1, 1.0 - rate), (-1, rate)):
        if limit > 0.0:
            found.append(
                float(optimize.brentq(compute_margin, 0.0, limit, args=(sign,))) if compute_margin(limit, sign) > 0.0 else 1.0
            )
    return max(found, default=1.0)


def count_rate_draws_needed(rate: float, other: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Fewest draws that tell a known rate from a certain other one with ``power``, by a two-sided test; normal approximation.

    The test is that of ``detectable_rate``: n draws are enough when n d >= z(alpha/2) sqrt(n r (1 - r)) + 1 + z(power) sqrt(n s (1 - s)),
    with rates r and s and their distance d.
    """
    return _count_separating_draws(rate, other, rate * (1.0 - rate), other * (1.0 - other), alpha, power)


def count_two_rates_draws_needed(rate: float, other: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Fewest draws of each of two samples that tell their rates apart with ``power``, by a two-sided test; normal approximation.

    The test compares the two shares with what their common mean m allows, with a correction for continuity (Yates 1934): n draws of
    each are enough when n d >= z(alpha/2) sqrt(2 n m (1 - m)) + 1 + z(power) sqrt(n (r (1 - r) + s (1 - s))), with rates r and s and
    their distance d.
    """
    mean = (rate + other) / 2.0
    return _count_separating_draws(
        rate, other, 2.0 * mean * (1.0 - mean), rate * (1.0 - rate) + other * (1.0 - other), alpha, power
    )


def _count_separating_draws(rate: float, other: float, usual: float, changed: float, alpha: float, power: float) -> int:
    """Smallest n with n d >= z(alpha/2) sqrt(n usual) + 1 + z(power) sqrt(n changed). usual, changed: variances of one draw."""
    _check_rates(alpha, power)
    _check_distance(apart := abs(other - rate))
    spread = float(stats.norm.isf(alpha / 2.0)) * sqrt(usual) + float(stats.norm.isf(1.0 - power)) * sqrt(changed)
    return ceil(((spread + sqrt(spread**2 + 4.0 * apart)) / (2.0 * apart)) ** 2)


@lru_cache(maxsize=4096)
def find_detectable_distance(n: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Upper bound of the gap between distribution functions that a Kolmogorov-Smirnov test of n values detects with ``power``.

    The test rejects when the empirical function differs from the true one by the critical distance c somewhere. Where the gap d
    is reached, the empirical function is a mean of n draws with standard deviation at most 1 / (2 sqrt(n)). So the power is
    reached from d = c + z / (2 sqrt(n)) on, whatever the rest of the distribution. The total variation distance is then at least
    d.
    """
    _check_rates(alpha, power)
    _check_draws(n)
    return min(1.0, float(stats.kstwo.isf(alpha, int(n)) + stats.norm.isf(1.0 - power) / (2.0 * sqrt(n))))


def compute_pooled_draws(first: float, second: float) -> float:
    """Two samples of a and b draws detect what one sample of a b / (a + b) draws detects against an exact distribution."""
    _check_draws(first)
    _check_draws(second)
    return first * second / (first + second)


def correct_level(alpha: float, tests: int) -> float:
    """Level of each of several tests such that together they raise a false alarm with probability at most alpha (Bonferroni)."""
    if tests < 1:
        raise EvidenceError(f"A family must have at least 1 test, got {tests}.")
    return alpha / tests


def adjust_p_values(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values of a family of tests, in the order given; compare each with alpha (Holm 1979, step-down Bonferroni).

    The smallest is multiplied by the number of tests, the next by one less, and so on; none may be smaller than an earlier one.
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
        raise EvidenceError(f"The number of samples must be above 0, got {n:g}.")


def _check_distance(tv: float) -> None:
    if not 0.0 < tv <= 1.0:
        raise EvidenceError(f"A total variation distance to detect must be above 0 and at most 1, got {tv:g}.")
