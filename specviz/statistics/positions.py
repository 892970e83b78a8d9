"""Tests position by position, which see what pooled cells hide: the rate of a set whose mass varies, and the transform.

Both condition on each draw's own prefix, so they need no partition and lose nothing by pooling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy import special, stats

from specviz.errors import EvidenceError
from specviz.statistics.finding import ALPHA, POWER, Finding, format_count
from specviz.statistics.power import find_detectable_distance, find_detectable_impossible, find_detectable_rate

EXACT_UP_TO = 5000  # draws with a probability strictly between 0 and 1; the convolution takes quadratic time
SMALL_TAIL = 1e-6  # below it 1 - P(S < k) keeps fewer than ten digits
NORMAL_FROM = 100.0  # variance below which a normal distribution is not accurate enough

Array: TypeAlias = Sequence[float] | np.ndarray


def compute_rate_test(
    successes: int,
    probabilities: Array,
    trials: Array | None = None,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
    name: str = "rate",
) -> Finding:
    """Two-sided test that the right number of draws fell into a set whose exact mass differs from draw to draw.

    Example: a position's token with q > p. The set is {x : q(x | prefix) > p(x | prefix)}; its probability is the mass that the
    exact distribution gives it after the draw's own prefix. A rule that accepts too much puts too many draws into the set, in
    every pooled cell at once.

    ``successes``: draws in the set. ``probabilities``: (G,) float64 in [0, 1], exact mass of the set for each draw, or for each
    group of draws. ``trials``: (G,) draws in each group; by default one each.

    The count is Poisson-binomial (Poisson 1837; Hong 2013). It is computed exactly for up to 5,000 draws with a probability
    strictly between 0 and 1. Above, it is approximated by a normal distribution with a third-moment correction or, if the
    variance is below 100, by the binomial distribution with the same mean and variance. The p-value is twice the smaller tail.

    ``statistic`` is the rate of draws in the set. ``detectable_tv`` is a change of this rate, a lower bound of the distance
    between the distributions.
    """
    p, m = _check_rates(probabilities, trials)
    n = int(m.sum())
    if successes != int(successes) or not 0 <= successes <= n:
        raise EvidenceError(f"The number of draws in the set must be a whole number between 0 and {n:,}, got {successes!r}.")
    mean, variance = float(m @ p), float(m @ (p * (1.0 - p)))
    certain, open_ = int(m[p == 1.0].sum()), (p > 0.0) & (p < 1.0)
    inside, among = int(successes) - certain, int(m[open_].sum())
    detectable = find_detectable_rate(mean, variance, n, alpha, power)
    if not 0 <= inside <= among:
        note = "This number of draws in the set has probability 0: one draw too many or too few is enough to reject."
        return Finding(name, n, successes / n, None, 0.0, detectable, alpha, power, note)
    if not among:
        note = "The set has probability 0 or 1 for every draw, so the test is equality."
        return Finding(name, n, successes / n, None, 1.0, find_detectable_impossible(n, power), alpha, power, note)
    low, high = compute_poisson_binomial_tails(inside, p[open_], m[open_])
    note = f"{successes / n:.4%} of {n:,} draws; the exact distribution says {mean / n:.4%}."
    return Finding(name, n, successes / n, None, min(1.0, 2.0 * min(low, high)), detectable, alpha, power, note)


def compute_poisson_binomial_tails(k: int, p: np.ndarray, m: np.ndarray) -> tuple[float, float]:
    """P(S <= k) and P(S >= k) for a sum of independent Bernoulli variables, m_g of each probability p_g, strictly in (0, 1)."""
    total = int(m.sum())
    if total <= EXACT_UP_TO:
        each = np.repeat(p, m)
        low, below = stats.poisson_binom.cdf(np.array([k, k - 1]), each)  # one convolution for both
        high = 1.0 - float(below)
        if high < SMALL_TAIL:  # the difference has lost its digits: count the failures
            high = float(stats.poisson_binom.cdf(total - k, 1.0 - each))
        return float(low), high
    mean, variance = float(m @ p), float(m @ (p * (1.0 - p)))
    if variance >= NORMAL_FROM:
        skew = float(m @ (p * (1.0 - p) * (1.0 - 2.0 * p))) / variance**1.5
        return _compute_refined_tail(k + 0.5, mean, variance, skew), _compute_refined_tail(-(k - 0.5), -mean, variance, -skew)
    if 2.0 * mean > total:  # count the failures, which are fewer
        high, low = compute_poisson_binomial_tails(total - k, 1.0 - p, m)
        return low, high
    theta = max(1e-12, float(m @ p**2) / mean)  # mean / theta trials of probability theta have this mean and variance
    return _compute_binomial_tails(k, mean / theta, theta)


def transform_to_uniform(below: Array, mass: Array, uniform: Array) -> np.ndarray:
    """The randomized probability integral transform, below + u * mass: uniform on [0, 1] under the null hypothesis.

    ``below``: (N,) mass that the exact distribution, after the draw's own prefix, gives to the tokens ordered before the drawn
    one. ``mass``: (N,) mass of the drawn token itself. ``uniform``: (N,) fresh random numbers that the decoder has not used.

    Any order of tokens is valid if it depends only on the distributions. In the order of p / q the tokens that a draft proposes
    too often come first, and a rule that accepts too many of them shifts the distribution most. The values at different positions
    of one sample are independent (Rosenblatt 1952), so positions may be tested together.
    """
    return np.asarray(below, dtype=np.float64) + np.asarray(uniform, dtype=np.float64) * np.asarray(mass, dtype=np.float64)


def compute_transform_test(
    below: Array, mass: Array, uniform: Array, *, alpha: float = ALPHA, power: float = POWER, name: str = "probability transform"
) -> Finding:
    """Kolmogorov-Smirnov test that the transformed draws are uniform. Arguments as in ``transform``; N at least 1.

    ``detectable_tv`` is the gap between distribution functions that the test detects, whatever the rest of the distribution. A
    token of mass 0 rejects outright.
    """
    values = transform_to_uniform(below, mass, uniform)
    if not values.size:
        raise EvidenceError("There are no draws to test: their number must be at least 1, got 0.")
    masses = np.asarray(mass, dtype=np.float64)
    if not (values.min() >= 0.0 and values.max() <= 1.0 + 1e-8 and masses.min() >= 0.0):
        raise EvidenceError("Cumulative masses must lie between 0 and 1.")
    found = stats.kstest(np.minimum(values, 1.0), "uniform")
    impossible = int((masses == 0.0).sum())
    note = (
        f"{format_count(impossible, 'draw')} had probability 0 under the exact distribution: one is enough to reject."
        if impossible
        else ""
    )
    p_value = 0.0 if impossible else float(found.pvalue)
    detectable = find_detectable_distance(values.size, alpha, power)
    return Finding(name, values.size, float(found.statistic), None, p_value, detectable, alpha, power, note)


def _check_rates(probabilities: Array, trials: Array | None) -> tuple[np.ndarray, np.ndarray]:
    p = np.asarray(probabilities, dtype=np.float64)
    m = np.ones(p.shape, dtype=np.int64) if trials is None else np.asarray(trials, dtype=np.int64)
    if p.ndim != 1 or p.shape != m.shape or (m < 0).any() or not m.sum():
        raise EvidenceError("A rate needs one probability per draw, or per group of draws, and at least one draw.")
    if not (p.min() >= 0.0 and p.max() <= 1.0 + 1e-8):
        raise EvidenceError(f"Probabilities must lie between 0 and 1, got {p.min():.6g} to {p.max():.6g}.")
    return np.minimum(p, 1.0), m


def _compute_binomial_tails(k: int, trials: float, theta: float) -> tuple[float, float]:
    """P(S <= k) and P(S >= k) for a binomial distribution whose number of trials need not be whole."""
    low = special.betainc(trials - k, k + 1.0, 1.0 - theta) if k < trials else 1.0
    high = special.betainc(k, trials - k + 1.0, theta) if 0 < k < trials + 1.0 else float(k <= 0)
    return float(low), float(high)


def _compute_refined_tail(x: float, mean: float, variance: float, skew: float) -> float:
    """Normal distribution function with the first term of its Edgeworth series (Hong 2013, section 2.2)."""
    z = (x - mean) / variance**0.5
    plain = stats.norm.cdf(z)
    moved = plain + skew * (1.0 - z * z) * stats.norm.pdf(z) / 6.0
    return float(np.clip(moved if abs(z) < 5.0 else plain, 0.0, 1.0))
