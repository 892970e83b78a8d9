"""The distance due to sampling noise: a closed form for its mean, and a band around it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specviz.errors import EvidenceError
from specviz.statistics.total_variation import compute_mean_deviation, compute_null_band, compute_total_variation
from tests.helpers.chance_bands import SEED, build_zipf, is_in_band


def test_three_cells_by_hand():
    """5, 3, 2 of 10 against 0.4, 0.4, 0.2: one excess of 0.1."""
    assert compute_total_variation([5, 3, 2], [0.4, 0.4, 0.2]) == pytest.approx(0.1)
    assert compute_total_variation([10, 0], [0.0, 1.0]) == 1.0


def test_outcomes_that_never_came_up_need_not_be_known():
    probs, counts = build_zipf(5000), np.random.default_rng(SEED).multinomial(300, build_zipf(5000))
    assert compute_total_variation(counts, probs) == pytest.approx(0.5 * np.abs(counts / 300 - probs).sum())
    drawn = counts > 0
    assert compute_total_variation(counts[drawn], probs[drawn]) == pytest.approx(compute_total_variation(counts, probs))


@pytest.mark.parametrize(("n", "p"), ((1, 0.5), (7, 0.3), (10, 1.0), (10, 0.0), (40, 0.05), (100, 0.999)))
def test_de_moivres_mean_deviation_is_the_sum_it_closes(n, p):
    k = np.arange(n + 1)
    assert compute_mean_deviation(n, np.array([p]))[0] == pytest.approx(np.abs(k - n * p) @ stats.binom.pmf(k, n, p), abs=1e-12)


BANDS = {
    "two cells": (build_zipf(2), 100),
    "300 of one draw": (build_zipf(300), 300),
    "light": (build_zipf(3000), 10_000),
    "heavy": (build_zipf(3000), 300_000),
    "flat": (np.full(5000, 1 / 5000), 20_000),
    "half in one cell": (np.append(0.5, np.full(3000, 0.5 / 3000)), 1500),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in ("flat", "heavy") else case for case in BANDS]
)
def test_the_band_is_that_of_multinomial_replicates(case):
    """1,000 fresh sets of draws: half lie below the median, 0.9 and 0.99 below the upper ends, within 99.99% bands widened by the
    band's own 4,000 replicates (factor sqrt(1.25) in standard deviations, so bands for 800)."""
    probs, n = BANDS[case]
    band = compute_null_band(probs, n, 0.99, seed=SEED)
    found = np.array(
        [compute_total_variation(row, probs) for row in np.random.default_rng(SEED + 1).multinomial(n, probs, size=1000)]
    )
    below = (found <= band.upper).mean()
    assert is_in_band(round(800 * below), 800, 0.99)
    inner = compute_null_band(probs, n, 0.9, seed=SEED).upper
    assert len(probs) == 2 or is_in_band(round(800 * (found <= inner).mean()), 800, 0.9)
    if len(probs) > 2:  # two cells give a lattice with few points: the median is one of them
        assert is_in_band(round(800 * (found <= band.median).mean()), 800, 0.5)
    assert abs(found.mean() - band.mean) < 4 * found.std() / 1000**0.5


def test_the_band_is_narrow_at_a_hundred_thousand_cells_and_a_million_draws():
    band = compute_null_band(build_zipf(100_000), 1_000_000)
    assert band.mean < band.upper < 1.05 * band.mean, "a sum of very many deviations hardly varies"


def test_the_band_is_a_pure_function_of_its_arguments():
    assert compute_null_band(build_zipf(50), 1000, seed=3) == compute_null_band(build_zipf(50), 1000, seed=3)
    assert compute_null_band(build_zipf(50), 1000, seed=3) != compute_null_band(build_zipf(50), 1000, seed=4)


def test_zeros_in_a_distribution_change_nothing_and_a_sure_outcome_has_no_band():
    assert compute_null_band([0.5, 0.5, 0.0], 100) == compute_null_band([0.5, 0.5], 100)
    assert compute_null_band([1.0, 0.0], 100)[:3] == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("call", "words"),
    (
        (lambda: compute_null_band([0.5, 0.5], 0), "at least 1 draw"),
        (lambda: compute_null_band([0.5, 0.5], 9, 1.0), "level between 0 and 1"),
        (lambda: compute_total_variation([1, 1], [0.9, 0.9]), "sum to 1 at most"),
        (lambda: compute_total_variation([0, 0], [0.5, 0.5]), "at least 1, got 0"),
    ),
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(EvidenceError, match=words):
        call()
