"""Repeated tests are valid if the looks share one level (Lan and DeMets 1983), or by Ville's inequality (1939)."""

from __future__ import annotations

from itertools import accumulate
from math import log

import numpy as np
import pytest
from scipy import stats

from specviz.errors import EvidenceError
from specviz.statistics.goodness import chi_square
from specviz.statistics.power import detectable_tv
from specviz.statistics.sequential import Looks, dirichlet_e_value
from tests.chance import SEED, in_band, least_favourable, zipf


@pytest.mark.parametrize("looks", (1, 2, 14))
@pytest.mark.parametrize("tests", (1, 5))
def test_the_levels_of_all_looks_add_up_to_alpha(looks, tests):
    plan = Looks(500, looks, alpha=0.01, tests=tests)
    assert sum(tests * plan.level(look) for look in range(looks)) == pytest.approx(0.01)


def test_three_looks_by_hand():
    """Half, a sixth, and the third that is left."""
    plan = Looks(100, 3, alpha=0.06)
    assert [plan.level(look) for look in range(3)] == pytest.approx([0.03, 0.01, 0.02])
    assert [plan.n(look) for look in range(3)] == [100, 200, 400] and plan.last == 400
    assert [plan.due(n) for n in (0, 99, 100, 199, 200, 399, 400, 10_000)] == [None, None, 0, 0, 1, 1, 2, 2]
    assert plan.adjusted([0.9, 0.01]) == pytest.approx(0.06), "rejected at its look means at most alpha in all"


def looks_at(luck, plan, probs, drawn_from):
    """P-values of one growing sample at each look."""
    steps = [plan.n(0), *(plan.n(look) for look in range(plan.looks - 1))]
    return [chi_square(total, probs).p_value for total in accumulate(luck.multinomial(step, drawn_from) for step in steps)]


def test_false_alarms_over_all_looks_stay_below_alpha_and_above_half_of_it():
    """8 looks, alpha 0.1, 2,000 repeats. Looks are dependent, so the union bound is not reached, but the first look alone spends
    half: the rate lies between alpha/2 and alpha, by 99.99% bands. Looking at 0.1 each time would alarm more than twice as
    often."""
    luck, probs, plan, repeats = np.random.default_rng(SEED), zipf(12), Looks(300, 8, alpha=0.1), 2000
    runs = [looks_at(luck, plan, probs, probs) for _ in range(repeats)]
    alarms = sum(plan.adjusted(p_values) <= plan.alpha for p_values in runs)
    assert stats.binom.ppf(5e-5, repeats, 0.05) <= alarms <= stats.binom.ppf(1 - 5e-5, repeats, 0.1)
    assert sum(min(p_values) <= 0.1 for p_values in runs) > 2 * alarms


def test_the_power_stated_at_a_look_is_reached_there():
    """Look 4 of 8, alpha 0.001, 1,500 repeats at the least favourable alternative: look 4 alone rejects with 0.99."""
    luck, probs, plan = np.random.default_rng(SEED + 1), zipf(12), Looks(2000, 8)
    other = least_favourable(probs, plan.detectable_tv(4, 11))
    draws = luck.multinomial(plan.n(4), other, size=1500)
    assert in_band(sum(chi_square(row, probs).p_value <= plan.level(4) for row in draws), 1500, 0.99)


def test_the_price_of_looking_is_an_eighth():
    """Tenth look, 50 degrees of freedom: the detectable distance against one test with the same draws, 0.001 each."""
    assert Looks(500, 14).detectable_tv(9, 50) / detectable_tv(50, 500 * 2**9) == pytest.approx(1.135, abs=0.01)


def test_the_e_value_by_hand():
    """Cells of one half, prior weight 2 (flat): after two heads the mixture gives 1/3, the distribution 1/4."""
    assert dirichlet_e_value([2, 0], [0.5, 0.5]) == pytest.approx(log(4 / 3))
    assert dirichlet_e_value([1, 1], [0.5, 0.5]) == pytest.approx(log(4 / 6))
    assert dirichlet_e_value([5, 1], [1.0, 0.0]) == float("inf")


def test_the_e_value_has_mean_one_while_the_distribution_is_true():
    """All outcomes of 6 draws in three cells, enumerated."""
    probs, n = np.array([0.5, 0.3, 0.2]), 6
    counts = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    values = np.exp([dirichlet_e_value(row, probs) for row in counts])
    assert stats.multinomial.pmf(counts, n, probs) @ values == pytest.approx(1.0)


def test_the_e_process_may_be_watched_after_every_draw():
    """2,000 runs of 1,000 draws, alpha 0.1, looked at each time: at most alpha by Ville, and not next to nothing (1% or more)."""
    luck, probs = np.random.default_rng(SEED + 2), np.array([0.5, 0.3, 0.2])
    alarms = 0
    for _ in range(2000):
        counts = np.cumsum(np.eye(3, dtype=int)[luck.choice(3, size=1000, p=probs)], axis=0)
        gammas = np.array([dirichlet_e_value(row, probs) for row in counts[[0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 767, 999]]])
        alarms += gammas.max() >= log(10)
    assert 20 <= alarms <= stats.binom.ppf(1 - 5e-5, 2000, 0.1)


@pytest.mark.parametrize(("cells", "tv", "least", "most"), ((2, 0.03, 0.4, 1.6), (50, 0.03, 2.5, 8.0)))
def test_the_e_process_pays_for_its_cells(cells, tv, least, most):
    """Mean draws until rejection at 0.001, the e-process (every 500 draws) over the looks; 20 repeats, least favourable alternative."""
    luck, probs = np.random.default_rng(SEED + 3), np.full(cells, 1 / cells)
    other, plan = least_favourable(probs, tv), Looks(500, 12)
    needed = np.zeros((20, 2))
    for repeat in range(20):
        heaps = list(accumulate(luck.multinomial(500, other) for _ in range(plan.last // 500)))
        needed[repeat, 0] = next(heap.sum() for heap in heaps if dirichlet_e_value(heap, probs) >= log(1000))
        looks = range(plan.looks)
        needed[repeat, 1] = next(plan.n(k) for k in looks if chi_square(heaps[2**k - 1], probs).p_value <= plan.level(k))
    ratio = needed[:, 0].mean() / needed[:, 1].mean()
    assert least < ratio < most


@pytest.mark.parametrize(
    ("call", "words"),
    (
        (lambda: Looks(0, 3), "first after at least 1 draw"),
        (lambda: Looks(10, 0), "Looks must be at least 1"),
        (lambda: dirichlet_e_value([1, 1], [0.5, 0.5], 0.0), "above 0, got 0"),
        (lambda: dirichlet_e_value([0, 0], [0.5, 0.5]), "at least 1, got 0"),
    ),
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(EvidenceError, match=words):
        call()
