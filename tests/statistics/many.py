"""P-values of many repeats at once: what the tests of this package give for each, in the time of a few. Of each kind one or more are compared."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specviz.statistics.goodness import (
    NullMoments,
    _compute_g_null,
    _compute_pearson_null,
    compute_chi_square,
    compute_conditional_chi_square,
)
from specviz.statistics.positions import compute_transform_test
from specviz.statistics.twosample import compute_homogeneity_test


def compute_p_values(test, counts, probs):
    """What a test gives for each row of counts of one total, a hundred rows at once; of each hundred the first is compared with it."""
    possible, found = probs > 0.0, []
    expected = counts[0].sum() * (probs[possible] / probs[possible].sum())
    null, power = (_compute_pearson_null(expected), 1) if test is compute_chi_square else (_compute_g_null(expected), 0)
    for rows in np.array_split(counts, -(-len(counts) // 100)):
        statistics = stats.power_divergence(rows[:, possible], expected, axis=1, lambda_=power).statistic
        found.append(stats.chi2.sf(statistics / null.scale, null.df))
        assert found[-1][0] == pytest.approx(test(rows[0], probs).p_value)
    return np.concatenate(found)


def compute_conditional_p_values(counts, probs):
    """What ``conditional_chi_square`` gives for each (P, V) of counts; of the first and the last it is compared with it."""
    totals = counts.sum(axis=2)
    expected = totals[:, :, None] * probs
    statistics = ((counts - expected) ** 2 / expected).sum(axis=(1, 2))
    cells = probs.shape[1]
    variances = (2.0 * (cells - 1) + (1.0 / expected).sum(axis=2) - (cells**2 + 2.0 * cells - 2.0) / totals).sum(axis=1)
    nulls = [NullMoments(len(probs) * (cells - 1.0), variance) for variance in variances]
    scales, dfs = np.array([(null.scale, null.df) for null in nulls]).T
    found = stats.chi2.sf(statistics / scales, dfs)
    for row in (0, -1):
        assert found[row] == pytest.approx(compute_conditional_chi_square(zip(counts[row], probs, strict=True)).p_value)
    return found


def compute_transform_p_values(rng, probs, drawn_from, n, repeats):
    """What ``compute_transform_test`` gives for n tokens from one distribution, judged by another, ``repeats`` times; the first is compared with it."""
    tokens = rng.choice(len(probs), size=(repeats, n), p=drawn_from)
    drawn = (np.cumsum(probs) - probs)[tokens], probs[tokens], rng.random((repeats, n))
    values, steps = np.sort(drawn[0] + drawn[1] * drawn[2], axis=1), np.arange(n) / n
    distances = np.maximum(values - steps, steps + 1 / n - values).max(axis=1)
    found = stats.kstwo.sf(distances, n)
    assert found[0] == pytest.approx(compute_transform_test(*(one[0] for one in drawn)).p_value)
    return found


def compute_homogeneity_p_values(first, second):
    """What ``compute_homogeneity_test`` gives for each row of counts of the same two totals, all of whose cells expect enough."""
    n, m = first[0].sum(), second[0].sum()
    both = first + second
    statistics = sum(
        ((counts - both * size / (n + m)) ** 2 / (both * size / (n + m))).sum(axis=1)
        for counts, size in ((first, n), (second, m))
    )
    found = stats.chi2.sf(statistics, first.shape[1] - 1)
    for row in (0, -1):
        assert found[row] == pytest.approx(compute_homogeneity_test(first[row], second[row]).p_value)
    return found
