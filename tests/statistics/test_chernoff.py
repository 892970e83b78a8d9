"""Chernoff's range holds what the binomial's own quantiles hold, and not much more."""

from __future__ import annotations

import pytest
from scipy import stats

from specviz.statistics.chernoff import compute_frequency_range


@pytest.mark.parametrize("n", (1, 10, 1000, 100_000))
@pytest.mark.parametrize("p", (0.001, 0.13, 0.5, 0.97))
@pytest.mark.parametrize("error", (0.05, 0.001))
def test_a_frequency_leaves_the_range_no_more_often_than_said(n, p, error):
    low, high = compute_frequency_range(p, n, error)
    missed = stats.binom.cdf(low * n - 1e-9, n, p) + stats.binom.sf(high * n + 1e-9, n, p)
    assert 0.0 <= low < p < high <= 1.0 and missed <= error * (1.0 + 1e-9)


def test_the_range_is_little_wider_than_the_exact_one():
    low, high = compute_frequency_range(0.2, 10_000, 0.001)
    exact = (stats.binom.isf(0.0005, 10_000, 0.2) - stats.binom.ppf(0.0005, 10_000, 0.2)) / 10_000
    assert exact < high - low < 1.25 * exact


@pytest.mark.parametrize("p", (0.0, 1.0))
def test_what_is_certain_has_no_range(p):
    assert compute_frequency_range(p, 50, 0.01) == pytest.approx((p, p), abs=1e-12)


def test_before_the_first_draw_the_range_is_everything():
    assert compute_frequency_range(0.3, 0, 0.01) == (0.0, 1.0)
