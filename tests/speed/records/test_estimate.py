"""A median's interval covers it as often as it says, whatever the distribution, and is no wider than that needs; so does a mean's.

Thompson 1936 (order statistics), Efron 1979 (the percentile bootstrap).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from specviz.speed.records.estimate import CONFIDENCE, MIN_RUNS, Estimate, describe_interval


@pytest.mark.parametrize("count", (6, 8, 9, 15, 30))
def test_the_interval_covers_the_median_as_often_as_it_says_and_is_no_wider_than_need_be(count):
    """On an exponential distribution, whose median is log 2: skewed, as seconds are. Three standard errors below: false alarm 0.001."""
    trials = 4000
    drawn = np.random.default_rng(0).exponential(size=(trials, count))
    found = [Estimate.from_runs(row.tolist()) for row in drawn]
    covered = np.mean([one.low <= np.log(2) <= one.high for one in found])
    inward = int((drawn[0] < found[0].low).sum())
    assert covered > CONFIDENCE - 3 * (CONFIDENCE * (1 - CONFIDENCE) / trials) ** 0.5
    assert 1 - 2 * binom.cdf(inward, count, 0.5) >= CONFIDENCE > 1 - 2 * binom.cdf(inward + 1, count, 0.5)


def test_fewer_than_six_runs_are_taken_whole_and_said_to_be():
    assert 1 - 2 * 0.5**MIN_RUNS >= CONFIDENCE > 1 - 2 * 0.5 ** (MIN_RUNS - 1)
    assert Estimate.from_runs([3.0, 1.0, 2.0], "s") == Estimate(2.0, 1.0, 3.0, 3, "s")
    assert Estimate.from_runs([2.0]) == Estimate(2.0, 2.0, 2.0, 1)
    assert describe_interval(5) == "lowest to highest of 5 runs" and describe_interval(6) == "95% interval of 6 runs"
    with pytest.raises(ValueError, match="at least one"):
        Estimate.from_runs([])


def test_one_disturbed_run_of_nine_or_more_does_not_widen_it():
    values = [float(value) for value in range(9)]
    assert (found := Estimate.from_runs(values)) == Estimate.from_runs([*values[:-1], 1000.0])
    assert (found.low, found.high) == (1.0, 7.0)


def test_a_means_interval_is_that_of_units_drawn_again():
    """Two values: every resample has the mean 0, 0.2 or 0.4, the outer ones a quarter of the time each."""
    assert Estimate.from_mean([0.0, 0.4]) == Estimate(0.2, 0.0, 0.4, 2)
    flat = Estimate.from_mean([0.25] * 5, "ms")
    assert (flat.value, flat.low, flat.high, flat.n, flat.unit) == (0.25, 0.25, 0.25, 5, "ms")
    normal = Estimate.from_mean(np.random.default_rng(1).normal(size=400).tolist())
    assert normal.width * normal.value == pytest.approx(2 * 1.96 / 20, rel=0.2), "twice 1.96 standard errors"


def test_a_ratio_of_sums_is_that_of_all_units_and_not_a_mean_of_ratios():
    """Two texts, of 4 tokens in 1 pass and in 4: a resample has 4, 8/5 or 1 tokens a pass, the outer ones a quarter of the time each."""
    assert Estimate.from_ratio([4, 4], [1, 4], "tokens/pass") == Estimate(1.6, 1.0, 4.0, 2, "tokens/pass")
    assert Estimate.from_ratio([0, 0], [0, 0]) == Estimate(0.0, 0.0, 0.0, 2)


def test_resamples_give_the_middle_95_percent():
    found = Estimate.from_resamples(50.0, np.arange(101.0), 7, "times")
    assert found == Estimate(50.0, 2.5, 97.5, 7, "times")
    assert found.width == pytest.approx(1.9) and found.format(".1f") == "50.0 (2.5 to 97.5)"
    assert found.convert(1e3, "ms") == Estimate(50e3, 2500.0, 97500.0, 7, "ms")
