"""Pearson 1900, and G: the p-values are what they say for three cells and for twenty thousand."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from scipy import stats

from specviz.errors import EvidenceError
from specviz.statistics.goodness import (
    NullMoments,
    _compute_pearson_null,
    compute_chi_square,
    compute_conditional_chi_square,
    compute_g_test,
)
from tests.helpers.cells import pool_cells
from tests.helpers.chance_bands import SEED, build_least_favorable, build_zipf, is_in_band
from tests.statistics.many import compute_conditional_p_values, compute_p_values

THIRDS = np.full(3, 1 / 3)


def test_three_cells_by_hand():
    """40, 30, 20 of 90 against thirds: (100 + 0 + 100) / 30; G = 2 (40 log 4/3 + 20 log 2/3); tail of two df: exp(-x / 2)."""
    pearson, ratio = compute_chi_square([40, 30, 20], THIRDS), compute_g_test([40, 30, 20], THIRDS)
    assert pearson.statistic == pytest.approx(200 / 30)
    assert (pearson.df, pearson.n) == (2, 90)
    assert pearson.p_value == pytest.approx(np.exp(-100 / 30))
    assert ratio.statistic == pytest.approx(2 * (40 * log(4 / 3) + 20 * log(2 / 3)))
    assert ratio.p_value == pytest.approx(np.exp(-ratio.statistic / 2), rel=0.05), "cells of 30 are nearly, not quite, the limit"


def test_perfect_counts_give_zero_and_p_value_one():
    for test in (compute_chi_square, compute_g_test):
        found = test([30, 30, 30], THIRDS)
        assert (found.statistic, found.p_value) == (pytest.approx(0.0), pytest.approx(1.0))


def test_with_many_draws_the_p_value_is_the_textbooks():
    counts = np.random.default_rng(SEED).multinomial(10**7, build_zipf(20))
    pearson, ratio = compute_chi_square(counts, build_zipf(20)), compute_g_test(counts, build_zipf(20))
    assert pearson.p_value == pytest.approx(stats.chisquare(counts, 10**7 * build_zipf(20)).pvalue, rel=1e-3)
    assert ratio.p_value == pytest.approx(stats.chi2.sf(ratio.statistic, 19), rel=1e-3)


def test_the_null_variance_is_haldanes():
    """Over every outcome of 4 draws in cells of 1/2, 1/4, 1/4, enumerated."""
    probs, n = np.array([0.5, 0.25, 0.25]), 4
    counts = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    weights = stats.multinomial.pmf(counts, n, probs)
    values = ((counts - n * probs) ** 2 / (n * probs)).sum(axis=1)
    null = _compute_pearson_null(n * probs)
    assert null.mean == pytest.approx(weights @ values)
    assert null.variance == pytest.approx(weights @ (values - weights @ values) ** 2)


def test_the_p_value_is_that_of_a_chi_square_with_the_null_mean_and_variance():
    """Mean 10 and variance 40 by hand: twice a chi-square of 5. Where the variance is the textbook's or less, the textbook's distribution."""
    assert (NullMoments(10.0, 40.0).scale, NullMoments(10.0, 40.0).df) == (2.0, 5.0)
    assert (NullMoments(10.0, 19.0).scale, NullMoments(10.0, 19.0).df) == (1.0, 10.0)
    probs = np.append(0.97, np.full(400, 0.03 / 400))
    counts = np.random.default_rng(SEED + 7).multinomial(30_000, probs)
    found, null = compute_chi_square(counts, probs), _compute_pearson_null(30_000 * probs)
    assert null.scale > 1.15
    assert found.p_value == pytest.approx(stats.chi2.sf(found.statistic / null.scale, 400 / null.scale))


CASES = {
    "three cells": (THIRDS, 300, 4000),
    "zipf, 40 cells": (build_zipf(40), 5000, 4000),
    "light cells": (pool_cells(build_zipf(30_000), 60_000).probs, 60_000, 1000),
    "one heavy, many of five draws": (np.append(0.5, np.full(4000, 0.5 / 4000)), 40_000, 1000),
}


@pytest.mark.parametrize("test", (compute_chi_square, compute_g_test))
@pytest.mark.parametrize("case", CASES)
def test_false_alarms_come_as_often_as_stated_neither_more_nor_less(case, test):
    """Level 0.05 and 0.01, 1,000 or 4,000 repeats, 99.99% bands of the binomial distribution."""
    probs, n, repeats = CASES[case]
    draws = np.random.default_rng(SEED + 3).multinomial(n, probs, size=repeats)
    found = compute_p_values(test, draws, probs)
    for level in (0.05, 0.01):
        assert is_in_band((found <= level).sum(), repeats, level), (level, (found <= level).mean())


def test_p_values_are_uniform_while_the_distribution_is_true():
    """Kolmogorov-Smirnov over 2,000 p-values, level 0.0001."""
    for test in (compute_chi_square, compute_g_test):
        draws = np.random.default_rng(SEED + 4).multinomial(100_000, build_zipf(60), size=2000)
        assert stats.kstest(compute_p_values(test, draws, build_zipf(60)), "uniform").pvalue > 1e-4


def test_the_textbook_distribution_would_raise_false_alarms_in_light_cells():
    """Why moments are computed: G over 4,000 cells of five draws lies above its df in nearly every repeat."""
    probs, n, _ = CASES["one heavy, many of five draws"]
    draws = np.random.default_rng(SEED + 5).multinomial(n, probs, size=50)
    textbook = [stats.chi2.sf(compute_g_test(row, probs).statistic, len(probs) - 1) for row in draws]
    assert np.mean(np.array(textbook) < 0.05) > 0.5


def test_one_impossible_draw_rejects_outright():
    for test in (compute_chi_square, compute_g_test):
        found = test([500, 499, 1], [0.5, 0.5, 0.0])
        assert found.p_value == 0.0 and found.rejected and np.isfinite(found.statistic)
        assert "1 draw of 1,000 had probability 0" in found.note


def test_draws_that_are_all_impossible_reject_and_say_so():
    for found in (compute_chi_square([0, 0, 9], [0.5, 0.5, 0.0]), compute_conditional_chi_square([([0, 0, 9], [0.5, 0.5, 0.0])])):
        assert found.p_value == 0.0 and "9 draws of 9 had probability 0" in found.note


def test_at_temperature_zero_the_test_is_equality_and_says_so():
    """All mass on one outcome. By hand: (1 - m)^1000 = 0.01 at m = 0.0046."""
    same, other = compute_chi_square([1000, 0], [1.0, 0.0]), compute_chi_square([999, 1], [1.0, 0.0])
    assert (same.p_value, other.p_value) == (1.0, 0.0)
    assert "the test is equality" in same.note and "1 draw of 1,000 differ" in other.note
    assert same.detectable_tv == pytest.approx(0.0046, abs=1e-4)
    cells = pool_cells([0.0, 1.0], 1000)
    assert compute_chi_square(np.bincount(cells.cell[[1, 1, 1]], minlength=len(cells.probs)), cells.probs).p_value == 1.0


def test_conditional_distributions_add_up():
    """By hand: two prefixes, each (40, 30, 20) against thirds; a third prefix that never came up adds nothing."""
    part = ([40, 30, 20], THIRDS)
    found = compute_conditional_chi_square([part, part, ([0, 0], [0.5, 0.5])])
    assert found.statistic == pytest.approx(400 / 30) and (found.df, found.n) == (4, 180)
    assert found.p_value == pytest.approx(stats.chi2.sf(400 / 30, 4))


def draw_second_tokens(rng, n, first, conditional, repeats):
    """Counts of (first, second) tokens, (repeats, P, V), the second drawn from its prefix's own distribution."""
    counts = rng.multinomial(n, first, size=repeats)
    return np.stack([rng.multinomial(counts[:, row], conditional[row]) for row in range(len(first))], axis=1)


def test_conditional_false_alarms_and_stated_power():
    """12 prefixes, 8 tokens each, 20,000 draws, 1,000 repeats: 0.05 of them under the null; 0.99 at level 0.001 at the
    alternative that moves every prefix's distribution by the stated distance in its least favorable direction."""
    rng, n, repeats = np.random.default_rng(SEED + 6), 20_000, 1000
    first, conditional = build_zipf(12, 0.5), rng.dirichlet(np.full(8, 4.0), size=12) * 0.9 + 0.0125
    drawn = draw_second_tokens(rng, n, first, conditional, repeats)
    assert is_in_band((compute_conditional_p_values(drawn, conditional) <= 0.05).sum(), repeats, 0.05)
    stated = compute_conditional_chi_square(zip(drawn[0], conditional, strict=True))
    moved = np.array([build_least_favorable(probs, stated.detectable_tv) for probs in conditional])
    seen = compute_conditional_p_values(draw_second_tokens(rng, n, first, moved, repeats), conditional) <= stated.alpha
    assert sum(seen) >= stats.binom.ppf(5e-5, repeats, 0.99)
    assert np.mean(seen) < 1.0, "the alternative is hard enough to be missed now and then"


@pytest.mark.parametrize(
    ("counts", "probs", "words"),
    (
        ([0, 0], [0.5, 0.5], "at least 1, got 0"),
        ([1, 2, 3], [0.5, 0.5], "one for each of the 2 masses"),
        ([1.5, 2], [0.5, 0.5], "whole numbers"),
        ([-1, 2], [0.5, 0.5], "whole numbers"),
        ([1, 2], [0.5, 0.6], "must sum to 1, got 1.1"),
        ([99, 1], [0.999, 0.001], "A cell expects 0.1 of 100 draws"),
    ),
)
def test_bad_input_gets_a_sentence(counts, probs, words):
    with pytest.raises(EvidenceError, match=words):
        compute_chi_square(counts, probs)


def test_prefixes_that_allow_no_test_get_a_sentence():
    with pytest.raises(EvidenceError, match="Nothing can be tested"):
        compute_conditional_chi_square([([5], [1.0])])
