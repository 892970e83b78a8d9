"""What pooled cells hide: a Poisson-binomial rate, and Rosenblatt's transform, both from each draw's own prefix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specviz.errors import EvidenceError
from specviz.statistics.positions import (
    compute_poisson_binomial_tails,
    compute_rate_test,
    compute_transform_test,
    transform_to_uniform,
)
from tests.helpers.chance_bands import SEED, build_zipf, is_in_band
from tests.statistics.many import compute_transform_p_values


def test_two_draws_by_hand():
    """Shares 1/2 and 1/4: both in the set with 1/8, neither with 3/8. Two-sided: twice the smaller tail."""
    assert compute_rate_test(2, [0.5, 0.25]).p_value == pytest.approx(0.25)
    assert compute_rate_test(0, [0.5, 0.25]).p_value == pytest.approx(0.75)
    assert compute_rate_test(1, [0.5, 0.25]).p_value == 1.0


def test_groups_of_draws_are_draws():
    assert compute_rate_test(40, [0.5, 0.25], [60, 70]) == compute_rate_test(40, [0.5] * 60 + [0.25] * 70)


@pytest.mark.parametrize(("high", "deviations"), ((0.98, 3.1), (0.1, 3.1), (0.02, 3.1), (0.004, 2.5)))
@pytest.mark.parametrize("mirrored", (False, True))
def test_beyond_the_exact_range_the_tails_are_right_to_a_tenth(high, deviations, mirrored, monkeypatch):
    """4,000 draws by the approximations against scipy's exact distribution, at both tails."""
    p = np.random.default_rng(SEED).random(4000) * high
    p = 1.0 - p if mirrored else p
    ones, mean, spread = np.ones(4000, dtype=np.int64), p.sum(), (p * (1 - p)).sum() ** 0.5
    for sign in (-1, 1):
        k = round(mean + sign * deviations * spread)
        exact = min(compute_poisson_binomial_tails(k, p, ones))
        monkeypatch.setattr("specviz.statistics.positions.EXACT_UP_TO", 0)
        assert min(compute_poisson_binomial_tails(k, p, ones)) == pytest.approx(exact, rel=0.1), (sign, exact)
        monkeypatch.undo()


@pytest.mark.parametrize("successes", (800, 1444))
def test_a_small_tail_keeps_its_digits(successes):
    """1,444 of 1,674 draws of probability 0.694: 1.9e-58, which 1 - 0.99... cannot say; as small at the lower tail."""
    low, high = compute_poisson_binomial_tails(successes, np.array([0.694]), np.array([1674]))
    binomial = stats.binom(1674, 0.694)
    assert low == pytest.approx(binomial.cdf(successes), rel=1e-9) and 0.0 < min(low, high) < 1e-50
    assert high == pytest.approx(binomial.sf(successes - 1), rel=1e-9)


def test_very_rare_sets_are_poisson():
    """6,000 draws of probability 1e-9, or 1e-200: one in the set has probability 6e-6, or next to none."""
    assert compute_rate_test(1, [1e-9], [6000]).p_value == pytest.approx(2 * 6e-6, rel=1e-3)
    assert compute_rate_test(0, [1e-9], [6000]).p_value == 1.0
    assert compute_rate_test(1, [1e-200], [6000]).p_value < 1e-190


@pytest.mark.parametrize(("n", "repeats"), ((300, 1000), (40_000, 2000)))
def test_rate_false_alarms_and_stated_power(n, repeats):
    """Level 0.05 under the null, twice the smaller tail of a discrete distribution: 0.05 at most, not below the lattice's 0.04 (n
    300) or 0.045; level 0.001 with power 0.99 at the stated shift of every draw's probability, toward one half where it varies
    most."""
    rng = np.random.default_rng(SEED + 1)
    p = rng.uniform(0.3, 0.4, size=20)
    trials = np.full(20, n // 20)
    draws = rng.binomial(trials, p, size=(repeats, 20)).sum(axis=1)
    tests = {k: compute_rate_test(k, p, trials) for k in set(draws.tolist())}
    alarms = sum(tests[k].p_value <= 0.05 for k in draws.tolist())
    low, high = stats.binom.ppf(5e-5, repeats, 0.04 if n < 1000 else 0.045), stats.binom.ppf(1 - 5e-5, repeats, 0.05)
    assert low <= alarms <= high
    shift = tests[draws[0]].detectable_tv
    moved = rng.binomial(trials, p + shift, size=(repeats, 20)).sum(axis=1).tolist()
    tests |= {k: compute_rate_test(k, p, trials) for k in {*moved} - tests.keys()}
    assert is_in_band(sum(tests[k].rejected for k in moved), repeats, 0.99)


def test_a_rate_shows_a_change_that_hides_inside_pools():
    """Ten thousand light tokens in pairs of equal mass; a rule takes 4% of one partner's mass to the other. Every pool of whole
    pairs keeps its mass, so no cell sees it; the set of first partners holds half the mass by distribution, and 0.52 of the
    draws."""
    found = compute_rate_test(10_400, [0.5], [20_000])
    assert found.rejected and found.detectable_tv == pytest.approx(0.02, abs=0.002)


def test_a_set_that_is_certain_makes_the_test_equality():
    same, other = compute_rate_test(3, [1.0, 1.0, 1.0, 0.0]), compute_rate_test(2, [1.0, 1.0, 1.0, 0.0])
    assert (same.p_value, other.p_value) == (1.0, 0.0)
    assert "equality" in same.note and "probability 0" in other.note
    assert compute_rate_test(3, [1.0, 1.0, 0.5]).p_value == 1.0, "one of one that may be in the set: nothing unusual"


def test_the_transform_by_hand():
    """Masses 0.5, 0.3, 0.2; the second token covers 0.5 to 0.8."""
    assert transform_to_uniform([0.5], [0.3], [0.5]).tolist() == pytest.approx([0.65])


def test_transform_false_alarms_and_stated_power():
    """500 draws of 30 tokens. Null: level 0.05, 1,000 repeats, band of the binomial distribution. Alternative: first half of the
    tokens loses the stated gap at once; the bound is one-sided, so power is 0.99 or more at level 0.001, and less than that at
    60% of the gap."""
    rng, probs, n, repeats = np.random.default_rng(SEED + 2), build_zipf(30, 0.5), 500, 1000
    assert is_in_band((compute_transform_p_values(rng, probs, probs, n, repeats) <= 0.05).sum(), repeats, 0.05)
    stated, rates = compute_transform_test([0.0] * n, [1.0] * n, rng.random(n)), []
    for gap in (stated.detectable_tv, 0.6 * stated.detectable_tv):
        half = probs[:10].sum()
        other = np.concatenate([probs[:10] * (1 - gap / half), probs[10:] * (1 + gap / (1 - half))])
        rates.append((compute_transform_p_values(rng, probs, other, n, repeats) <= stated.alpha).mean())
    assert rates[0] >= stats.binom.ppf(5e-5, repeats, 0.99) / repeats
    assert rates[1] < 0.9


def test_a_token_of_mass_zero_rejects_outright():
    found = compute_transform_test([0.2, 0.5, 0.9], [0.1, 0.0, 0.1], [0.5, 0.5, 0.5])
    assert found.p_value == 0.0 and "1 draw had probability 0" in found.note


@pytest.mark.parametrize(
    ("call", "words"),
    (
        (lambda: compute_rate_test(3, [0.5, 0.5]), "between 0 and 2, got 3"),
        (lambda: compute_rate_test(0, []), "at least one draw"),
        (lambda: compute_rate_test(0, [1.5]), "between 0 and 1"),
        (lambda: compute_transform_test([], [], []), "at least 1, got 0"),
        (lambda: compute_transform_test([0.9], [0.9], [0.9]), "Cumulative masses"),
    ),
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(EvidenceError, match=words):
        call()
