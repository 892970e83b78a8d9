"""Where the median of ever more measurements lies, told from a few and from nothing about the distribution that they follow."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

CONFIDENCE = 0.93  # five values, taken whole, have .9375


def median_within(values: Sequence[float]) -> tuple[float, float]:
    """Two of the values between which the median of their distribution lies with a confidence of CONFIDENCE at least, where there are five or more.

    As many values in from either end as that allows: each falls below the median like a fair random number (the sign test turned round;
    Thompson 1936, order statistics). Fewer than five values are taken whole. Raises ValueError for none.
    """
    if not values:
        raise ValueError("no values, at least one is needed")
    ordered = sorted(values)
    inward = max(0, int(stats.binom.ppf((1.0 - CONFIDENCE) / 2, len(ordered), 0.5)) - 1)
    return ordered[inward], ordered[-1 - inward]
