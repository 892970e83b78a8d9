"""Tail of a weighted sum of chi-square variables: the distribution of a quadratic form of normal ones."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from scipy import optimize, stats

NEAR_MEAN = 1e-2  # standard deviations from the mean within which the formula loses its digits


def compute_quadratic_form_tail(value: float, weights: np.ndarray) -> float:
    """P(sum of w chi^2 >= value) for independent chi-square variables of one degree of freedom and weights above 0.

    The saddlepoint approximation (Lugannani and Rice 1980; Kuonen 1999, "Saddlepoint approximations for distributions of quadratic forms
    in normal variables"), whose relative error stays small far in the tail.
    """
    mean, deviation = float(weights.sum()), sqrt(2.0 * float((weights**2).sum()))
    if value <= 0.0:
        return 1.0
    if abs(value - mean) < NEAR_MEAN * deviation:
        return (_approximate(mean + NEAR_MEAN * deviation, weights) + _approximate(mean - NEAR_MEAN * deviation, weights)) / 2.0
    return _approximate(value, weights)


def _approximate(value: float, weights: np.ndarray) -> float:
    high = 0.5 / float(weights.max())
    low = -high
    while _differentiate(low, weights) > value:
        low *= 2.0
    top = high * (1.0 - 1e-12)
    if _differentiate(top, weights) <= value:
        return 0.0
    at = optimize.brentq(lambda t: _differentiate(t, weights) - value, low, top, xtol=1e-14, rtol=1e-14)
    cumulant = -0.5 * float(np.log1p(-2.0 * at * weights).sum())
    curvature = 2.0 * float(((weights / (1.0 - 2.0 * at * weights)) ** 2).sum())
    w = np.sign(at) * sqrt(max(0.0, 2.0 * (at * value - cumulant)))
    v = at * sqrt(curvature)
    return float(np.clip(stats.norm.sf(w + log(v / w) / w), 0.0, 1.0))


def _differentiate(at: float, weights: np.ndarray) -> float:
    """First derivative of the cumulant generating function."""
    return float((weights / (1.0 - 2.0 * at * weights)).sum())
