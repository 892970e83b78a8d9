"""Tests of whole texts on synthetic tokens: false alarms, power, and what each statistic sees that the others do not.

Every token is drawn from a distribution of its own over 40 tokens. A false-alarm rate is a count of K runs at level a: it lies above
the stated bound with a probability below 1e-6 (binomial), so a test fails by chance in less than one seed of a million.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specviz.statistics.along_texts import (
    Moments,
    TokenScores,
    compute_class_test,
    compute_round_weights,
    compute_score_test,
    compute_weighted_transform_test,
    count_tests,
    run_tests_along_texts,
)
from specviz.statistics.quadratic_form import compute_quadratic_form_tail
from tests.helpers.chance_bands import SEED

VOCABULARY, CLASSES = 40, 5
RUNS, LEVEL = 200, 0.05
MOST_ALARMS = int(stats.binom.isf(1e-6, RUNS, LEVEL))  # 27


def draw_tokens(n: int, seed: int, bend=lambda p: p, favored=None) -> TokenScores:
    """n tokens, each from ``bend`` of a Dirichlet distribution, scored under the distribution itself."""
    dice = np.random.default_rng([SEED, seed])
    p = dice.dirichlet(np.full(VOCABULARY, 0.3), size=n) + 1e-12
    p /= p.sum(1, keepdims=True)
    drawn = bend(p)
    token = (drawn.cumsum(1) < dice.random((n, 1)) * drawn.sum(1, keepdims=True)).sum(1).clip(max=VOCABULARY - 1)
    here = np.arange(n)
    mass, logs = p[here, token], np.log(p).clip(min=-15.0)
    above = (p * (p > mass[:, None])).sum(1)
    mean = (p * logs).sum(1)
    centered = logs - mean[:, None]
    member = np.arange(VOCABULARY) % CLASSES
    pi = np.stack([p[:, member == one].sum(1) for one in range(CLASSES)], axis=1)
    return TokenScores(
        above + dice.random(n) * mass,
        mass <= 0.0,
        Moments(logs[here, token], mean, (p * centered**2).sum(1), (p * centered**3).sum(1)),
        Moments.of_events(token == p.argmax(1), p.max(1)),
        Moments.of_events(token < 10, p[:, :10].sum(1)),
        member[token],
        pi,
    )


def flatten(p: np.ndarray) -> np.ndarray:
    """Temperature 1.25."""
    hot = p**0.8
    return hot / hot.sum(1, keepdims=True)


def test_the_tests_raise_no_more_false_alarms_than_they_say():
    """200 runs of 300 tokens at a level of 0.05, with weights 0 or 1, and with weights in between that depend on the token before."""
    names = ("transform", "score", "likeliest", "classes", "classes, weights", "transform, weights", "score, weights")
    alarms = dict.fromkeys((*names, "likeliest, weights"), 0)
    for seed in range(RUNS):
        scores = draw_tokens(300, seed)
        weights = np.concatenate(([0.5], scores.values[:-1]))  # predictable: the token before
        found = {
            "transform": compute_weighted_transform_test(scores.values, np.ones(300)),
            "score": compute_score_test(scores.log_probability, np.ones(300)),
            "likeliest": compute_score_test(scores.likeliest, np.ones(300)),
            "likeliest, weights": compute_score_test(scores.likeliest, weights),
            "classes": compute_class_test(scores.member, scores.class_masses, np.ones(300)),
            "classes, weights": compute_class_test(scores.member, scores.class_masses, weights),
            "transform, weights": compute_weighted_transform_test(scores.values, weights),
            "score, weights": compute_score_test(scores.log_probability, weights),
        }
        for name, one in found.items():
            alarms[name] += one.p_value <= LEVEL
    assert all(count <= MOST_ALARMS for count in alarms.values()), alarms
    assert sum(alarms.values()) > 0, "a test that never rejects tests nothing"


def test_the_transform_and_the_log_probability_see_another_temperature():
    scores = draw_tokens(6000, 1, flatten)
    found = {one.name: one.p_value for one in run_tests_along_texts(scores, {}, alpha=1e-4)}
    assert found["all tokens: transform"] < 1e-6 and found["all tokens: log probability"] < 1e-6
    assert found["all tokens: token classes"] > 1e-4


def test_the_likeliest_token_sees_a_greedy_draw_best_where_places_are_uncertain():
    """One token in five is drawn toward the likeliest, a total variation of up to 0.15; its weights say 0.5 for it and for three others."""
    dice, n = np.random.default_rng(SEED), 6000
    wrong = dice.random(n) < 0.2
    weights = 0.5 * (wrong | (dice.random(n) < 0.6))

    def sharpen(p):
        moved = np.minimum(0.15, 1.0 - p.max(1)) * wrong
        sharp = p * (1.0 - moved / (1.0 - p.max(1)))[:, None]
        sharp[np.arange(n), p.argmax(1)] += moved
        return sharp

    found = {one.name: one.p_value for one in run_tests_along_texts(draw_tokens(n, 7, sharpen), {"bonus": weights})}
    others = (found[f"bonus: {name}"] for name in ("transform", "log probability", "token classes"))
    assert found["bonus: likeliest token"] < 1e-4 and found["bonus: likeliest token"] < min(others)


def test_the_classes_see_what_the_transform_does_not():
    """Mass moves from token to token of equal probability: 40 tokens in four groups of ten equal ones, in random order."""
    dice, n = np.random.default_rng(SEED), 6000
    groups = dice.dirichlet(np.ones(4), size=n)
    p = np.repeat(groups / 10.0, 10, axis=1)
    member = np.arange(VOCABULARY) % CLASSES
    bent = p.copy()
    bent[:, member == 1] *= 1.3
    bent[:, member == 0] *= 0.7
    token = (bent.cumsum(1) < dice.random((n, 1))).sum(1).clip(max=VOCABULARY - 1)
    mass, pi = p[np.arange(n), token], np.stack([p[:, member == one].sum(1) for one in range(CLASSES)], axis=1)
    above = (p * (p > mass[:, None])).sum(1) + 10.0 * mass * dice.random(n)  # an order of equal ones that is drawn anew
    transform = compute_weighted_transform_test(above, np.ones(n))
    classes = compute_class_test(member[token], pi, np.ones(n))
    assert classes.p_value < 1e-6 < 1e-3 < transform.p_value


def test_the_statistic_of_the_classes_is_that_of_the_definition():
    """r' (C + I / 0.2^2)^-1 r token by token, with weights, tokens in no class, and a class that expects too few tokens."""
    dice, n = np.random.default_rng([SEED, 13]), 400
    p = dice.dirichlet((3.0, 2.0, 1.0, 1e-3, 2.0), n)  # the fourth class expects less than one token, the fifth column is in none
    member = (p.cumsum(1) < dice.random((n, 1))).sum(1)
    weights = dice.random(n)
    left, covariance = np.zeros(3), np.zeros((3, 3))
    for one, row, w in zip(member, p[:, :3], weights, strict=True):
        left += w * ((np.arange(3) == one) - row)
        covariance += w**2 * (np.diag(row) - np.outer(row, row))
    found = compute_class_test(np.minimum(member, 4), p[:, :4], weights)
    assert found.statistic == pytest.approx(left @ np.linalg.solve(covariance + 25.0 * np.eye(3), left))
    shares = np.linalg.eigvals(covariance @ np.linalg.inv(covariance + 25.0 * np.eye(3))).real
    assert found.p_value == pytest.approx(compute_quadratic_form_tail(found.statistic, shares), rel=0.05)


def test_a_move_in_a_random_direction_is_seen_with_the_power_of_a_known_size():
    """Each token is made more or less likely by a fifth at random: a total variation of 0.1 in 3,200 tokens over 300, likeliest 0.06.

    At a level of 1e-4 the test misses 1 of 200 such draws, one of 31 classes of ids 68 of them.
    """
    dice, n, tokens = np.random.default_rng([SEED, 12]), 3200, 300
    p = 1.0 / (np.arange(tokens) + 3.0)
    p /= p.sum()
    sign = dice.choice((-0.2, 0.2), tokens)
    bent = p * (1.0 + sign - float(p @ sign))
    token = dice.choice(tokens, n, p=bent / bent.sum())
    masses = np.tile(p[:127], (n, 1))
    found = compute_class_test(np.minimum(token, 127), masses, np.ones(n))
    assert found.p_value < 1e-4


def test_a_place_is_rejected_where_the_whole_is_not():
    """One token in twenty is drawn at the other temperature: 300 of 6,000."""
    dice = np.random.default_rng(SEED)
    weights = (dice.random(6000) < 0.05).astype(float)

    def bend(p):
        hot = p**0.3
        return np.where(weights[:, None] > 0.0, hot / hot.sum(1, keepdims=True), p)

    found = {
        one.name: one for one in run_tests_along_texts(draw_tokens(6000, 3, bend), {"bonus": weights, "rest": 1.0 - weights})
    }
    assert found["bonus: transform"].p_value < 1e-6 < 1e-3 < found["rest: transform"].p_value
    assert found["bonus: transform"].n == int(weights.sum()) and len(found) == count_tests(2, True)


def test_weights_that_are_all_equal_change_no_statistic():
    """Half of each token: sums and their standard errors shrink alike. Only the p-value of the transform is another approximation.

    The test of classes takes a weight as the probability that the token is at the place, so it is not among them.
    """
    scores, ones = draw_tokens(2000, 5), np.ones(2000)
    whole, half = (compute_score_test(scores.log_probability, w) for w in (ones, ones / 2.0))
    assert half.statistic == pytest.approx(whole.statistic) and half.n == 500
    whole, half = (compute_weighted_transform_test(scores.values, w) for w in (ones, ones / 2.0))
    assert half.statistic == pytest.approx(whole.statistic * np.sqrt(2000)) and half.p_value == pytest.approx(
        whole.p_value, rel=0.1
    )


def test_a_token_of_probability_0_rejects_and_few_tokens_are_not_tested():
    values, impossible = np.linspace(0.0, 1.0, 100), np.zeros(100, dtype=bool)
    impossible[40] = True
    assert compute_weighted_transform_test(values, np.ones(100), impossible).p_value == 0.0
    few = compute_weighted_transform_test(values, np.full(100, 0.5))
    assert few.p_value == 1.0 and few.detectable_tv is None and "too few" in few.note


def test_a_skewed_score_is_not_called_wrong_too_often():
    """Events of probability 0.02 in 100 tokens: a normal tail alone calls 5 events or more wrong 2.4 times too often."""
    events = Moments.of_events(np.arange(100) < 9, np.full(100, 0.02))
    p_value = compute_score_test(events, np.ones(100)).p_value
    exact = float(stats.binom.sf(8, 100, 0.02))
    assert exact < p_value < 12.0 * exact


def test_weights_of_a_round_are_those_of_every_path_added_up():
    """By hand for gamma 2: half of the texts begin with a round, half with a token of the prompt's pass."""
    share = np.array([0.5, 0.8, 0.25])
    weights = compute_round_weights([share], 2)
    begun = [np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.0]), np.array([0.5 * 0.2 + 0.5 * 0.2, 0.5 * 0.8, 0.5 * 0.8])]
    lead = [np.zeros(3), np.array([1.0, 0.0, 0.0]), np.array([0.2, 0.8, 0.0])]
    assert np.allclose(weights, (np.array(begun) + np.array(lead)) / 2.0)


@pytest.mark.slow
def test_twenty_seeds_of_exact_tokens_pass():
    """20 runs of 20,000 tokens with 23 places, all tests at 0.001 together: one rejects with a probability of 0.02."""
    rejected = 0
    for seed in range(20):
        scores = draw_tokens(20_000, 100 + seed)
        places = {f"place {k}": (np.arange(20_000) % 23 == k).astype(float) for k in range(23)}
        tests = run_tests_along_texts(scores, places)
        rejected += min(one.p_value for one in tests) * len(tests) <= 0.001
    assert rejected <= 1
