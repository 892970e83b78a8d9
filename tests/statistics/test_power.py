"""'Consistent' is worth as much as what could have been seen: Cohen 1988's noncentral chi-square, turned into distances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from specviz.errors import EvidenceError
from specviz.statistics.goodness import compute_chi_square
from specviz.statistics.power import (
    adjust_p_values,
    compute_affordable_df,
    compute_noncentrality,
    compute_pooled_draws,
    correct_level,
    count_draws_needed,
    find_detectable_distance,
    find_detectable_impossible,
    find_detectable_rate,
    find_detectable_tv,
)
from tests.helpers.chance_bands import SEED, build_least_favorable, build_zipf, is_in_band
from tests.statistics.many import compute_p_values


@pytest.mark.parametrize(
    ("tv", "df", "thousands"),
    ((0.01, 1, 79), (0.01, 50, 201), (0.01, 300, 399), (0.005, 1, 315), (0.005, 50, 802), (0.005, 300, 1600), (0.001, 1, 7900), (0.001, 50, 20000)),
)  # fmt: skip
def test_the_reference_numbers_of_draws_are_reproduced(tv, df, thousands):
    assert count_draws_needed(tv, df, 0.001, 0.99) == pytest.approx(1000 * thousands, rel=0.005)


def test_one_degree_of_freedom_by_hand():
    """A two-sided normal test: sqrt(lambda) = z(alpha/2) + z(power), but for the other tail, which is negligible."""
    by_hand = (stats.norm.isf(0.0005) + stats.norm.isf(0.01)) ** 2
    assert compute_noncentrality(1, 0.001, 0.99) == pytest.approx(by_hand, rel=1e-9)
    assert count_draws_needed(0.01, 1) == int(np.ceil(by_hand / 4e-4))


@pytest.mark.parametrize("df", (0.5, 1, 7, 300, 20_000, 200_000))
def test_two_routes_to_lambda_agree(df):
    critical = stats.chi2.isf(0.001, df)
    assert compute_noncentrality(df, 0.001, 0.99) == pytest.approx(special.chndtrinc(critical, df, 0.01), rel=1e-8)


def test_distance_and_draws_are_each_others_inverse():
    assert find_detectable_tv(50, count_draws_needed(0.005, 50)) == pytest.approx(0.005, rel=1e-5)
    assert find_detectable_tv(50, 1) == 1.0, "a distance is never above 1"


@pytest.mark.parametrize(("tv", "n"), ((0.005, 1_000_000), (0.01, 100_000), (0.02, 5_000)))
def test_the_affordable_cells_are_the_most_that_still_see_the_distance(tv, n):
    df = compute_affordable_df(tv, n)
    assert (df == 0 or find_detectable_tv(df, n) <= tv) and find_detectable_tv(df + 1, n) > tv


@pytest.mark.parametrize("probs", (np.full(40, 1 / 40), build_zipf(40)), ids=("flat", "zipf"))
def test_the_stated_power_is_reached_at_the_least_favorable_alternative(probs):
    """n 50,000, alpha 0.001, power 0.99, 2,000 repeats: rejections lie in the 99.99% band of Binomial(2000, 0.99)."""
    n, repeats = 50_000, 2000
    seen = compute_chi_square((probs * n).round(), probs).detectable_tv
    draws = np.random.default_rng(SEED).multinomial(n, build_least_favorable(probs, seen), size=repeats)
    found = compute_p_values(compute_chi_square, draws, probs)
    assert is_in_band((found <= 0.001).sum(), repeats, 0.99)


def test_every_other_direction_at_that_distance_is_seen_more_often():
    """All of the change in the lightest cells: lambda is larger than 4 n TV^2, by Cauchy and Schwarz; 500 repeats, all reject."""
    n, probs = 50_000, build_zipf(40)
    tv = find_detectable_tv(39, n)
    other = probs.copy()
    other[0] -= tv
    other[-10:] += tv / 10
    assert n * ((other - probs) ** 2 / probs).sum() > 2 * 4 * n * tv**2
    draws = np.random.default_rng(SEED + 1).multinomial(n, other, size=500)
    assert all(compute_chi_square(row, probs).rejected for row in draws)


def test_the_mass_on_impossible_outcomes_that_shows():
    """By hand: 99 in 100 batches of 459 draws hold an outcome of mass 0.01."""
    assert find_detectable_impossible(459) == pytest.approx(0.01, rel=0.005)
    assert (1 - find_detectable_impossible(1000)) ** 1000 == pytest.approx(0.01)


def test_rates_show_what_two_cells_show():
    """Equal rates of one half are a chi-square with one degree of freedom, but for the continuity correction."""
    n = 1_000_000
    assert find_detectable_rate(n / 2, n / 4, n) == pytest.approx(find_detectable_tv(1, n), rel=0.001)


def test_a_rate_that_no_change_could_show_gives_one():
    assert find_detectable_rate(1.0, 0.5, 2) == 1.0


def test_the_gap_of_distribution_functions_is_larger_than_a_fixed_sets():
    """KS looks at every set {value <= x} at once, and pays for it: between one fixed set and half as much again."""
    assert find_detectable_tv(1, 10_000) < find_detectable_distance(10_000) < 1.5 * find_detectable_tv(1, 10_000)


def test_two_equal_arms_see_what_half_of_one_sees():
    assert compute_pooled_draws(1000, 1000) == 500


def test_corrections_by_hand():
    """Holm on 0.01, 0.04, 0.03: 0.01 * 3, 0.03 * 2, then 0.04 * 1, not below the one before it."""
    assert correct_level(0.01, 5) == pytest.approx(0.002)
    assert adjust_p_values([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert adjust_p_values([0.5, 0.9]) == (1.0, 1.0)


def test_a_holm_family_keeps_its_false_alarm_rate():
    """Eight independent true nulls at 0.05: at least one falls with probability 1 - (1 - 0.05/8)^8 = 0.0489; 4,000 repeats."""
    values = np.random.default_rng(SEED + 2).random((4000, 8))
    assert is_in_band(sum(min(adjust_p_values(row)) <= 0.05 for row in values), 4000, 1 - (1 - 0.05 / 8) ** 8)


@pytest.mark.parametrize(
    ("call", "words"),
    (
        (lambda: find_detectable_tv(0, 100), "at least 1 degree of freedom"),
        (lambda: find_detectable_tv(3, 0), "above 0, got 0"),
        (lambda: count_draws_needed(0.0, 3), "above 0 and at most 1"),
        (lambda: compute_noncentrality(3, 0.01, 0.01), "false-alarm rate < power"),
        (lambda: correct_level(0.01, 0), "at least 1 test"),
        (lambda: adjust_p_values([]), "at least 1 test"),
    ),
)
def test_bad_questions_get_a_sentence(call, words):
    with pytest.raises(EvidenceError, match=words):
        call()
