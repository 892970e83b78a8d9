"""A confidence interval of the median from a few measurements, with no assumption about their distribution."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

CONFIDENCE = 0.93  # the range of five values has 0.9375


def median_within(values: Sequence[float]) -> tuple[float, float]:
    """Confidence interval of the median: two of the values, with a confidence of at least CONFIDENCE from five values on.

    Each value lies below the median with probability 1/2, so the interval leaves out as many values at either end as the binomial
    distribution allows (the sign test inverted; Thompson 1936, order statistics). Below five values it is their range.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("no values, at least one is needed")
    ordered = sorted(values)
    inward = max(0, int(stats.binom.ppf((1.0 - CONFIDENCE) / 2, len(ordered), 0.5)) - 1)
    return ordered[inward], ordered[-1 - inward]
