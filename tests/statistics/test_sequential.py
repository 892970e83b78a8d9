"""Repeated tests are valid if the looks share one level (Lan and DeMets 1983)."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from scipy import stats

from specviz.errors import EvidenceError
from specviz.statistics.goodness import compute_chi_square
from specviz.statistics.power import find_detectable_tv
from specviz.statistics.sequential import InterimSchedule
from tests.helpers.chance_bands import SEED, build_least_favorable, build_zipf, is_in_band
from tests.statistics.many import compute_p_values


@pytest.mark.parametrize("looks", (1, 2, 14))
def test_the_levels_of_all_looks_add_up_to_alpha(looks):
    plan = InterimSchedule(500, looks, alpha=0.01)
    assert sum(plan.compute_alpha_at(look) for look in range(looks)) == pytest.approx(0.01)


def test_three_looks_by_hand():
    """Half, a sixth, and the third that is left."""
    plan = InterimSchedule(100, 3, alpha=0.06)
    assert [plan.compute_alpha_at(look) for look in range(3)] == pytest.approx([0.03, 0.01, 0.02])
    assert [plan.count_samples(look) for look in range(3)] == [100, 200, 400]
    assert [plan.find_due_look(n) for n in (0, 99, 100, 199, 200, 399, 400, 10_000)] == [None, None, 0, 0, 1, 1, 2, 2]


def test_false_alarms_over_all_looks_stay_below_alpha_and_above_half_of_it():
    """8 looks, alpha 0.1, 2,000 repeats. Looks are dependent, so the union bound is not reached, but the first look alone spends
    half: the rate lies between alpha/2 and alpha, by 99.99% bands. Looking at 0.1 each time would alarm more than twice as
    often."""
    rng, probs, plan, repeats = np.random.default_rng(SEED), build_zipf(12), InterimSchedule(300, 8, alpha=0.1), 2000
    steps = [plan.count_samples(0), *(plan.count_samples(look) for look in range(plan.looks - 1))]
    totals = accumulate(rng.multinomial(step, probs, size=repeats) for step in steps)
    runs = np.stack([compute_p_values(compute_chi_square, counts, probs) for counts in totals], axis=1)
    levels = [plan.compute_alpha_at(look) for look in range(plan.looks)]
    alarms = int((runs <= levels).any(axis=1).sum())
    assert stats.binom.ppf(5e-5, repeats, 0.05) <= alarms <= stats.binom.ppf(1 - 5e-5, repeats, 0.1)
    assert (runs.min(axis=1) <= 0.1).sum() > 2 * alarms


def test_the_power_stated_at_a_look_is_reached_there():
    """Look 4 of 8, alpha 0.001, 1,500 repeats at the least favorable alternative: look 4 alone rejects with 0.99."""
    rng, probs, plan = np.random.default_rng(SEED + 1), build_zipf(12), InterimSchedule(2000, 8)
    other = build_least_favorable(probs, find_detectable_tv(11, plan.count_samples(4), plan.compute_alpha_at(4)))
    draws = rng.multinomial(plan.count_samples(4), other, size=1500)
    assert is_in_band((compute_p_values(compute_chi_square, draws, probs) <= plan.compute_alpha_at(4)).sum(), 1500, 0.99)


def test_the_price_of_looking_is_an_eighth():
    """Tenth look, 50 degrees of freedom: the detectable distance against one test with the same draws, 0.001 each."""
    plan = InterimSchedule(500, 14)
    assert find_detectable_tv(50, plan.count_samples(9), plan.compute_alpha_at(9)) / find_detectable_tv(
        50, plan.count_samples(9)
    ) == pytest.approx(1.135, abs=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    (
        (lambda: InterimSchedule(0, 3), "first after at least 1 draw"),
        (lambda: InterimSchedule(10, 0), "Looks must be at least 1"),
    ),
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(EvidenceError, match=words):
        call()
