"""Counts against an exact distribution: Pearson's chi-square, the likelihood ratio G, and sums of chi-squares over prefixes.

Sources: Pearson 1900; Cohen 1988 for power. Both statistics tend to the textbook chi-square distribution when every cell expects
many draws. With tens of thousands of cells that expect five draws each, it is off: G lies far above its df, and Pearson's
statistic varies more. So the null mean and variance are computed for the actual cells, and the p-value is that of a multiple of a
chi-square with this mean and variance. If cells expect many draws, the multiple is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import special, stats

from specviz.errors import EvidenceError
from specviz.statistics.finding import ALPHA, POWER, Finding, check_counts, check_distribution, format_count
from specviz.statistics.power import find_detectable_impossible, find_detectable_tv
from specviz.statistics.registry import register_statistic

LEAST = 1.0  # expected draws that a cell must have

Array: TypeAlias = Sequence[float] | np.ndarray


class NullMoments(NamedTuple):
    """Mean and variance of a statistic under the null hypothesis."""

    mean: float
    variance: float

    @property
    def scale(self) -> float:
        """Multiple of the chi-square with this mean and variance; at least 1, the textbook value."""
        return max(1.0, self.variance / (2.0 * self.mean))

    @property
    def df(self) -> float:
        """Degrees of freedom of that chi-square."""
        return self.mean / self.scale


@register_statistic("chi-square", title="any difference, weighted by the expected counts")
def compute_chi_square(counts: Array, probs: Array, *, alpha: float = ALPHA, power: float = POWER) -> Finding:
    """Pearson's test of counts against an exact distribution: sum (count - expected)^2 / expected.

    ``counts``: (C,) draws per cell, whole, at least one draw in all. ``probs``: (C,) float64, exact mass of each cell: 0, or
    large enough to expect 1 draw. A draw in a cell of mass 0 rejects outright.

    Cells must be fixed before any draw. The null mean is C - 1, the variance that of Haldane 1937. If one cell has
    all the mass, the test is for equality, and its note says so.
    """
    return _test_counts("chi-square", "pearson", _compute_pearson_null, counts, probs, alpha, power)


@register_statistic("G", title="cells that occur too rarely")
def compute_g_test(counts: Array, probs: Array, *, alpha: float = ALPHA, power: float = POWER) -> Finding:
    """The likelihood-ratio test: G = 2 sum count * log(count / expected). Arguments and cells as in ``compute_chi_square``.

    More sensitive than Pearson's to cells that occur too rarely. Null mean and variance are those of Poisson counts.
    """
    return _test_counts("G", "log-likelihood", _compute_g_null, counts, probs, alpha, power)


def compute_conditional_chi_square(
    groups: Iterable[tuple[Array, Array]], *, alpha: float = ALPHA, power: float = POWER, name: str = "conditional distributions"
) -> Finding:
    """The next token given the prefix, summed over prefixes: one statistic, one df, one p-value.

    ``groups``: for each prefix the counts of the next token and its exact distribution, each (C_g,), in cells made for n *
    P(prefix) draws.

    Given how often each prefix occurred, the chi-squares of different prefixes are independent, so statistics, degrees of freedom
    and variances add up; a prefix that did not occur adds nothing. ``detectable_tv`` is the mean of the distances after each
    prefix, weighted by how often the prefix occurred: at a given mean, the sum of n_g TV_g^2 is least if all distances are equal.
    """
    observed, expected, nulls, impossible = [], [], [], 0
    for counts, probs in groups:
        masses = check_distribution(probs)
        if not np.sum(counts):
            continue
        seen, possible = check_counts(counts, masses.size), masses > 0.0
        impossible += int(seen[~possible].sum())
        if possible.sum() >= 2 and seen[possible].any():
            observed.append(seen[possible])
            expected.append(_compute_expected(seen[possible], masses[possible]))
            nulls.append(_compute_pearson_null(expected[-1]))
    if not nulls and not impossible:
        raise EvidenceError("Nothing can be tested: no prefix has two cells that expect enough draws. Draw more.")
    if not nulls:
        return _test_equality(name, impossible, impossible, 1, alpha, power)
    cells, means = np.concatenate(observed), np.concatenate(expected)
    statistic = float(stats.chisquare(cells, means).statistic)
    null = NullMoments(sum(one.mean for one in nulls), sum(one.variance for one in nulls))
    return _build_finding(name, int(cells.sum()) + impossible, statistic, len(cells) - len(nulls), null, impossible, alpha, power)


def _test_counts(
    name: str, lambda_: str, null: Callable[[np.ndarray], NullMoments], counts: Array, probs: Array, alpha: float, power: float
) -> Finding:
    masses = check_distribution(probs)
    seen = check_counts(counts, masses.size)
    possible = masses > 0.0
    inside, n, df = seen[possible], int(seen.sum()), int(possible.sum()) - 1
    impossible = n - int(inside.sum())
    if not df or not inside.sum():
        return _test_equality(name, n, impossible, df, alpha, power)
    expected = _compute_expected(inside, masses[possible])
    if expected.min() < LEAST:
        raise EvidenceError(
            f"A cell expects {expected.min():.2g} of {n:,} draws, too few for a test: every cell must expect {LEAST:g} or more. "
            "Pool outcomes first, or draw more."
        )
    statistic = float(stats.power_divergence(inside, expected, lambda_=lambda_).statistic)
    return _build_finding(name, n, statistic, df, null(expected), impossible, alpha, power)


def _test_equality(name: str, n: int, impossible: int, df: int, alpha: float, power: float) -> Finding:
    """The test if one outcome has all the mass (temperature 0), or if every draw was impossible."""
    if df:
        note = _describe_impossible(impossible, n)
    else:
        observed = f"{format_count(impossible, 'draw')} of {n:,} differ." if impossible else "Every draw is that outcome."
        note = f"One outcome has all the mass, so the test is equality. {observed}"
    detectable = find_detectable_impossible(n, power)
    return Finding(name, n, float(impossible), df, 0.0 if impossible else 1.0, detectable, alpha, power, note)


def _build_finding(
    name: str, n: int, statistic: float, df: int, null: NullMoments, impossible: int, alpha: float, power: float
) -> Finding:
    note = _describe_impossible(impossible, n) if impossible else ""
    p_value = 0.0 if impossible else float(stats.chi2.sf(statistic / null.scale, null.df))
    detectable = find_detectable_tv(null.df, n / null.scale, alpha, power) if df else find_detectable_impossible(n, power)
    return Finding(name, n, statistic, df, p_value, detectable, alpha, power, note)


def _describe_impossible(impossible: int, n: int) -> str:
    return f"{format_count(impossible, 'draw')} of {n:,} had probability 0 under the exact distribution: one is enough to reject."


def _compute_expected(counts: np.ndarray, masses: np.ndarray) -> np.ndarray:
    return counts.sum() * (masses / masses.sum())


def _compute_pearson_null(expected: np.ndarray) -> NullMoments:
    """Haldane 1937: mean C - 1, variance 2 (C - 1) + sum 1/E - (C^2 + 2 C - 2) / n."""
    cells, n = len(expected), expected.sum()
    return NullMoments(cells - 1.0, float(2.0 * (cells - 1) + (1.0 / expected).sum() - (cells**2 + 2.0 * cells - 2.0) / n))


def _compute_g_null(expected: np.ndarray) -> NullMoments:
    """Sums of the cells' Poisson moments, less 1 from the mean and 2 from the variance because the total is fixed.

    The 1 and 2 are exact if cells expect many draws. For light cells the variance also loses the squared covariance with the
    total, divided by n. From 1 expected draw on this is less than 1% of it, and is ignored.
    """
    mean, variance = _interpolate_g_moments(expected)
    return NullMoments(float(mean.sum() - 1.0), float(variance.sum() - 2.0))


def _interpolate_g_moments(expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of 2 (C log(C / E) - (C - E)) for C Poisson with mean E.

    Interpolated in log E on a grid between 0.001 and 300; above, the leading terms 1 + 1/(6E) and 2 + 2/(3E).
    """
    grid, table = _tabulate_g_moments()
    mean, variance = (np.interp(np.log(expected), grid, column) for column in table)
    heavy = expected > 300.0
    return np.where(heavy, 1.0 + 1.0 / (6.0 * expected), mean), np.where(heavy, 2.0 + 2.0 / (3.0 * expected), variance)


@lru_cache(maxsize=1)
def _tabulate_g_moments() -> tuple[np.ndarray, np.ndarray]:
    """Grid of log E (600,), and the two moments on it (2, 600)."""
    grid = np.linspace(np.log(1e-3), np.log(300.0), 600)
    rows = []
    for mean in np.exp(grid):
        count = np.arange(int(mean + 15.0 * np.sqrt(mean) + 40.0))
        mass = stats.poisson.pmf(count, mean)
        value = 2.0 * (special.xlogy(count, count / mean) - (count - mean))
        center = mass @ value
        rows.append((center, mass @ (value - center) ** 2))
    return grid, np.array(rows).T
