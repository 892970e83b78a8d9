"""The tail of a weighted sum of chi-square variables, against distributions that are known in closed form."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from scipy import stats

from specviz.statistics.quadratic_form import compute_quadratic_form_tail


@pytest.mark.parametrize("df", (1, 2, 30, 127))
def test_equal_weights_are_a_chi_square(df):
    """From the body of the distribution to 1e-12, and at the mean itself; one part in ten at a single degree of freedom."""
    for tail in (0.999, 0.9, 0.5, 0.1, 1e-3, 1e-6, 1e-12):
        value = float(stats.chi2.isf(tail, df))
        assert compute_quadratic_form_tail(3.0 * value, np.full(df, 3.0)) == pytest.approx(tail, rel=0.12 if df < 3 else 0.01)
    assert compute_quadratic_form_tail(float(df), np.ones(df)) == pytest.approx(
        stats.chi2.sf(df, df), rel=0.12 if df < 3 else 0.01
    )


def test_pairs_of_weights_are_sums_of_exponential_variables():
    """Two of weight a and two of b: P = (a exp(-x / 2a) - b exp(-x / 2b)) / (a - b)."""
    a, b = 0.9, 0.2
    for value in (0.5, 2.0, 10.0, 40.0):
        exact = (a * exp(-value / (2 * a)) - b * exp(-value / (2 * b))) / (a - b)
        assert compute_quadratic_form_tail(value, np.array([a, a, b, b])) == pytest.approx(exact, rel=0.06)
    assert (
        compute_quadratic_form_tail(0.0, np.array([a, b])) == 1.0 and compute_quadratic_form_tail(1e6, np.array([a, b])) < 1e-300
    )
