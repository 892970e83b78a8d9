"""What pooled cells hide, seen position by position: shares of a set whose mass changes from draw to draw, and the transform.

Both condition on each draw's own prefix, so they need no partition and lose nothing to pooling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy import special, stats

from specviz.errors import EvidenceError
from specviz.statistics.findings import ALPHA, POWER, Finding, plural
from specviz.statistics.power import detectable_distance, detectable_impossible, detectable_share

EXACT_UP_TO = 5000  # uncertain draws; the convolution behind it is quadratic
NORMAL_FROM = 100.0  # variance under which a normal distribution is too far off

Array: TypeAlias = Sequence[float] | np.ndarray


def share_test(
    successes: int,
    probabilities: Array,
    trials: Array | None = None,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
    name: str = "share",
) -> Finding:
    """Did as many draws fall into the set as should have, when its exact mass differs from draw to draw? Two-sided.

    Example: a position's token with q > p. Its set is {x : q(x | prefix) > p(x | prefix)}, its probability the mass that the
    exact distribution gives this set after that draw's own prefix. A rule that keeps too much puts too many draws there, in every
    pooled cell at once.

    successes      draws in the set
    probabilities  (G,) float64 in [0, 1], exact mass of the set for each draw, or for each group of draws
    trials         (G,) draws in each group; without it, one each

    The count is Poisson-binomial (Poisson 1837; Hong 2013): exact up to 5,000 draws with a probability strictly between 0
    and 1; beyond, a normal distribution refined by its third moment, or where the variance is below 100 the binomial distribution of the same mean
    and variance. The
    p-value is twice the smaller tail. ``statistic`` is the share; ``detectable_tv`` the change of the share, which is a
    lower bound of the distance between the distributions.
    """
    p, m = _shares(probabilities, trials)
    n = int(m.sum())
    if successes != int(successes) or not 0 <= successes <= n:
        raise EvidenceError(f"The number of draws in the set must be a whole number between 0 and {n:,}, got {successes!r}.")
    mean, variance = float(m @ p), float(m @ (p * (1.0 - p)))
    certain, open_ = int(m[p == 1.0].sum()), (p > 0.0) & (p < 1.0)
    inside, among = int(successes) - certain, int(m[open_].sum())
    seen = detectable_share(mean, variance, n, alpha, power)
    if not 0 <= inside <= among:
        note = "As many draws in the set have probability 0: one draw too many or too few is enough to reject."
        return Finding(name, n, successes / n, None, 0.0, seen, alpha, power, note)
    if not among:
        note = "The set holds all or nothing of every distribution, so the test is equality."
        return Finding(name, n, successes / n, None, 1.0, detectable_impossible(n, power), alpha, power, note)
    low, high = poisson_binomial_tails(inside, p[open_], m[open_])
    note = f"{successes / n:.4%} of {n:,} draws; the exact distribution says {mean / n:.4%}."
    return Finding(name, n, successes / n, None, min(1.0, 2.0 * min(low, high)), seen, alpha, power, note)


def poisson_binomial_tails(k: int, p: np.ndarray, m: np.ndarray) -> tuple[float, float]:
    """P(S <= k) and P(S >= k) for a sum of m_g random numbers of probability p_g each, all strictly between 0 and 1."""
    total = int(m.sum())
    if total <= EXACT_UP_TO:
        probs = stats.poisson_binom(np.repeat(p, m))
        return float(probs.cdf(k)), float(probs.sf(k - 1))
    mean, variance = float(m @ p), float(m @ (p * (1.0 - p)))
    if variance >= NORMAL_FROM:
        skew = float(m @ (p * (1.0 - p) * (1.0 - 2.0 * p))) / variance**1.5
        return _refined(k + 0.5, mean, variance, skew), _refined(-(k - 0.5), -mean, variance, -skew)
    if 2.0 * mean > total:  # count the misses, which are few
        high, low = poisson_binomial_tails(total - k, 1.0 - p, m)
        return low, high
    theta = max(
        1e-12, float(m @ p**2) / mean
    )  # of the binomial distribution with this mean and variance, of mean / theta random numbers
    return _binomial_tails(k, mean / theta, theta)


def transform(below: Array, at: Array, uniform: Array) -> np.ndarray:
    """The randomised probability integral transform: below + u * at, uniform on [0, 1] while the distribution is true.

    below    (N,) mass that the exact distribution, after the draw's own prefix, gives to the tokens that stand before the drawn one
    at       (N,) mass of the drawn token itself
    uniform  (N,) fresh uniforms that the decoder has not seen

    Any order of tokens will do as long as the distributions alone fix it. Ordered by p / q, the tokens that a draft offers too often
    stand first, and a rule that keeps too many of them bends the curve most. Values of one draw's positions are independent
    of each other (Rosenblatt 1952), so positions may be tested together.
    """
    return np.asarray(below, dtype=np.float64) + np.asarray(uniform, dtype=np.float64) * np.asarray(at, dtype=np.float64)


def transform_test(
    below: Array, at: Array, uniform: Array, *, alpha: float = ALPHA, power: float = POWER, name: str = "probability transform"
) -> Finding:
    """Kolmogorov-Smirnov test that the transformed draws are uniform. Arguments as in ``transform``; N at least 1.

    ``detectable_tv`` is the gap between distribution functions that the test sees whatever else the distribution does.
    A token of mass 0 rejects outright.
    """
    values = transform(below, at, uniform)
    if not values.size:
        raise EvidenceError("There are no draws to test: their number must be at least 1, got 0.")
    masses = np.asarray(at, dtype=np.float64)
    if not (values.min() >= 0.0 and values.max() <= 1.0 + 1e-8 and masses.min() >= 0.0):
        raise EvidenceError("Cumulative masses must lie between 0 and 1.")
    found = stats.kstest(np.minimum(values, 1.0), "uniform")
    impossible = int((masses == 0.0).sum())
    note = (
        f"{plural(impossible, 'draw')} had probability 0 under the exact distribution: one is enough to reject."
        if impossible
        else ""
    )
    p_value = 0.0 if impossible else float(found.pvalue)
    seen = detectable_distance(values.size, alpha, power)
    return Finding(name, values.size, float(found.statistic), None, p_value, seen, alpha, power, note)


def _shares(probabilities: Array, trials: Array | None) -> tuple[np.ndarray, np.ndarray]:
    p = np.asarray(probabilities, dtype=np.float64)
    m = np.ones(p.shape, dtype=np.int64) if trials is None else np.asarray(trials, dtype=np.int64)
    if p.ndim != 1 or p.shape != m.shape or (m < 0).any() or not m.sum():
        raise EvidenceError("A share needs one probability per draw, or per group of draws, and at least one draw.")
    if not (p.min() >= 0.0 and p.max() <= 1.0 + 1e-8):
        raise EvidenceError(f"Probabilities must lie between 0 and 1, got {p.min():.6g} to {p.max():.6g}.")
    return np.minimum(p, 1.0), m


def _binomial_tails(k: int, randomness: float, theta: float) -> tuple[float, float]:
    """P(S <= k) and P(S >= k) for a binomial distribution whose number of random numbers need not be whole."""
    low = special.betainc(randomness - k, k + 1.0, 1.0 - theta) if k < randomness else 1.0
    high = special.betainc(k, randomness - k + 1.0, theta) if 0 < k < randomness + 1.0 else float(k <= 0)
    return float(low), float(high)


def _refined(x: float, mean: float, variance: float, skew: float) -> float:
    """Normal distribution function with the first term of its Edgeworth series (Hong 2013, section 2.2)."""
    z = (x - mean) / variance**0.5
    plain = stats.norm.cdf(z)
    moved = plain + skew * (1.0 - z * z) * stats.norm.pdf(z) / 6.0
    return float(np.clip(moved if abs(z) < 5.0 else plain, 0.0, 1.0))
