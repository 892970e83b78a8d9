"""No distribution at all, only two samples: Pitman's permutation argument is exact at any size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specviz.errors import EvidenceError
from specviz.statistics.twosample import (
    compare_two_rates,
    compute_homogeneity_test,
    compute_permutation_test,
    find_shared_beginnings,
)
from tests.helpers.chance_bands import SEED, build_least_favorable, build_zipf, is_in_band
from tests.statistics.many import compute_homogeneity_p_values


def list_shared_beginnings(continuations):
    order, starts, ends = find_shared_beginnings(continuations)
    return sorted(sorted(continuations[i] for i in order[a:b]) for a, b in zip(starts, ends, strict=True))


def test_shared_beginnings_by_hand():
    """b, bc, bcd and a, ab, ab: those with a, those with b, those with bc, and the two that are equal."""
    assert list_shared_beginnings(["ab", "ab", "a", "b", "bc", "bcd", "x"]) == [
        ["a", "ab", "ab"],
        ["ab", "ab"],
        ["b", "bc", "bcd"],
        ["bc", "bcd"],
    ]
    assert list_shared_beginnings([(1, 2), (1, 3), (2,)]) == [[(1, 2), (1, 3)]]
    assert list_shared_beginnings(["abc", "abc"]) == list_shared_beginnings(["a", "b"]) == list_shared_beginnings(["a"]) == []


def test_three_against_three_by_hand():
    """aaa against bbb: 2 of the 20 ways to split six draws are as extreme, so p tends to 0.1. 1,999 permutations, 99.99% band."""
    found = compute_permutation_test(["a"] * 3, ["b"] * 3, permutations=1999)
    assert is_in_band(round(found.p_value * 2000) - 1, 1999, 0.1)
    assert found.statistic == pytest.approx(5**0.5), "gap 3/3, spread sqrt(9/36 * 3 * 3 / 5) = 1.5 / sqrt(5) draws"


def test_four_against_two_by_hand():
    """aaaa against bb: 4 draws where 4 * 4/6 are expected, spread sqrt(8/36 * 4 * 2 / 5): sqrt(5) again."""
    assert compute_permutation_test(["a"] * 4, ["b"] * 2).statistic == pytest.approx(5**0.5)


def continuations(rng, probs, n, length=6):
    """n continuations over 4 tokens; each token's distribution is the same, shifted by the token before."""
    drawn = rng.choice(len(probs), size=(n, length), p=probs)
    return [tuple(row) for row in (np.cumsum(drawn, axis=1) % len(probs)).tolist()]


def test_permutation_false_alarms_come_as_often_as_stated():
    """Arms of 60 and 90, 199 permutations, 600 repeats at level 0.05: the p-value is exact, so the count lies in the band of Binomial(600, 0.05)."""
    rng, probs = np.random.default_rng(SEED), np.array([0.4, 0.3, 0.2, 0.1])
    p_values = [
        compute_permutation_test(
            continuations(rng, probs, 60), continuations(rng, probs, 90), permutations=199, seed=repeat
        ).p_value
        for repeat in range(600)
    ]
    assert is_in_band(sum(p <= 0.05 for p in p_values), 600, 0.05)


def test_the_stated_gap_in_one_beginning_is_seen():
    """300 per arm of 3 tokens, level 0.01, power 0.99: the second arm begins with token 0 more often by the stated gap; 150 repeats, at least
    as many rejections as Binomial(150, 0.99) gives in 99.99% of cases."""
    rng, probs = np.random.default_rng(SEED + 1), np.full(4, 0.25)
    arm = lambda: continuations(rng, probs, 300, length=3)  # noqa: E731
    gap = compute_permutation_test(arm(), arm(), permutations=1999, alpha=0.01).detectable_tv
    seen = 0
    for repeat in range(150):
        second = [(0, *rest) if rng.random() < gap / 0.75 else (first, *rest) for first, *rest in arm()]
        seen += compute_permutation_test(arm(), second, permutations=299, seed=repeat, alpha=0.01).rejected
    assert seen >= stats.binom.ppf(1e-4, 150, 0.99)


def test_texts_that_never_repeat_are_told_apart_by_how_they_begin():
    """Every whole text is new, so a distance between distributions of whole texts is 1 in either case; 0.55 against 0.45 begin with 'The'."""
    first = [("The " if i % 20 < 11 else "A ") + f"{i:04d}x" for i in range(2000)]
    second = [("The " if i % 20 < 9 else "A ") + f"{i:04d}y" for i in range(2000)]
    assert compute_permutation_test(first, second, permutations=1999).rejected
    assert not compute_permutation_test(first, [text.replace("x", "z") for text in first], permutations=1999).rejected


def test_the_answer_is_a_pure_function_of_draws_and_seed():
    rng, probs = np.random.default_rng(SEED + 2), build_zipf(4)
    arms = continuations(rng, probs, 50), continuations(rng, probs, 50)
    assert compute_permutation_test(*arms, seed=1) == compute_permutation_test(*arms, seed=1)
    assert compute_permutation_test(*arms, permutations=99).detectable_tv is None, "too few permutations for level .001"


@pytest.mark.parametrize("level", (0.05, 0.001, 0.001 / 9))
def test_a_test_has_as_many_permutations_as_its_level_needs(level, all_permutations):
    """Two samples of 40 that have nothing in common are rejected at any level; other tests have fewer permutations (tests/conftest.py)."""
    found = compute_permutation_test(["a"] * 40, ["b"] * 40, alpha=level)
    assert found.p_value == 1 / (1 + all_permutations(level)) < level and found.rejected
    assert found.detectable_tv is not None


def test_arms_that_cannot_differ_say_so():
    for arms in ((["a"] * 5, ["a"] * 9), (["a"], ["b"])):
        found = compute_permutation_test(*arms)
        assert found.p_value == 1.0 and "nothing can tell the samples apart" in found.note


def test_a_two_by_two_table_by_hand():
    """60, 40 against 40, 60: every cell expects 50, so 4 * 100 / 50 = 8."""
    found = compute_homogeneity_test([60, 40], [40, 60])
    assert (found.statistic, found.df) == (pytest.approx(8.0), 1)
    assert found.p_value == pytest.approx(stats.chi2.sf(8.0, 1))


def test_homogeneity_false_alarms_and_stated_power():
    """Arms of 20,000 and 30,000 over 50 outcomes, 2,000 repeats: level 0.05 under the null; 0.99 at level 0.001 where half of the
    mass moves one way in one arm and the mixture of the arms stays."""
    rng, probs, n, m, repeats = np.random.default_rng(SEED + 3), build_zipf(50), 20_000, 30_000, 2000
    null = rng.multinomial(n, probs, size=repeats), rng.multinomial(m, probs, size=repeats)
    assert is_in_band((compute_homogeneity_p_values(*null) <= 0.05).sum(), repeats, 0.05)
    tv = compute_homogeneity_test(null[0][0], null[1][0]).detectable_tv
    one, two = build_least_favorable(probs, tv * m / (n + m)), build_least_favorable(probs, -tv * n / (n + m))
    seen = compute_homogeneity_p_values(rng.multinomial(n, one, size=repeats), rng.multinomial(m, two, size=repeats)) <= 0.001
    assert is_in_band(seen.sum(), repeats, 0.99)


def test_rare_outcomes_share_a_cell_and_a_light_remainder_joins_the_lightest():
    """10 per sample would be 5 expected: 3 + 3 and 2 + 2 share one cell; a lone 2 + 2 joins the 20 + 20."""
    assert compute_homogeneity_test([50, 20, 3, 2], [50, 20, 3, 2]).df == 2
    assert compute_homogeneity_test([50, 20, 2], [50, 20, 2]).df == 1


@pytest.mark.parametrize(
    ("call", "words"),
    (
        (lambda: compute_permutation_test([], ["a"]), "first sample must have between 1 and 4,000 continuations, got 0"),
        (lambda: compute_permutation_test(["a"], ["a"] * 4001), "second sample .* got 4,001. Take the first 4,000"),
        (lambda: compute_homogeneity_test([5, 0], [7, 0]), "Nothing can be tested"),
        (lambda: compute_homogeneity_test([5, 0], [7]), "one for each"),
        (lambda: compute_homogeneity_test([0, 0], [7, 1]), "at least 1, got 0"),
    ),
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(EvidenceError, match=words):
        call()


def test_two_rates_by_hand():
    """Fisher's tea: three of four against one of four has a two-sided p-value of 34/70."""
    assert compare_two_rates((3, 1), (4, 4)) == pytest.approx(34 / 70)
    assert compare_two_rates((0, 5), (0, 9)) == 1.0
