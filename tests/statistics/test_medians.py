"""The interval of a median covers it as often as it says, whatever the distribution, and is no wider than that needs."""

import numpy as np
import pytest
from scipy.stats import binom

from specviz.statistics.medians import CONFIDENCE, median_within


@pytest.mark.parametrize("count", (5, 8, 9, 15, 30))
def test_the_interval_covers_the_median_as_often_as_it_says_and_is_no_wider_than_need_be(count):
    """On an exponential distribution, whose median is log 2: skewed, as seconds are."""
    trials = 4000
    drawn = np.random.default_rng(0).exponential(size=(trials, count))
    within = np.array([median_within(row.tolist()) for row in drawn])
    covered = ((within[:, 0] <= np.log(2)) & (np.log(2) <= within[:, 1])).mean()
    inward = int((drawn[0] < within[0, 0]).sum())
    assert covered > CONFIDENCE - 3 * (CONFIDENCE * (1 - CONFIDENCE) / trials) ** 0.5
    assert 1 - 2 * binom.cdf(inward, count, 0.5) >= CONFIDENCE > 1 - 2 * binom.cdf(inward + 1, count, 0.5)


def test_few_values_give_their_range_and_none_is_refused():
    assert median_within([3.0, 1.0, 2.0]) == (1.0, 3.0) and median_within([2.0]) == (2.0, 2.0)
    with pytest.raises(ValueError, match="at least one"):
        median_within([])


def test_one_disturbed_value_of_nine_or_more_does_not_widen_it():
    values = [float(value) for value in range(9)]
    assert median_within(values) == (1.0, 7.0) == median_within([*values[:-1], 1000.0])
