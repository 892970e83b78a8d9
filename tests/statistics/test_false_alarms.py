"""A right decoder is called wrong as often as the level says, no more and no less.

Seeds of the speculative decoder on one pair of tables, 3,000 draws of three tokens each. The number of rejections at level 0.01
must lie in the central 99.9% of Binomial(seeds, 0.01): 2 to 22 of 1,000, where too few would mean a test that cannot fail, and 0 to
6 of the 100 of the fast tests, where that is left to the p-values. These must be uniform: Kolmogorov-Smirnov refuses uniform ones
once in 1,000 times.
"""

from __future__ import annotations

import pytest
from scipy import stats

from specviz.decoding.sampler import Shard, sample_with_shared_distributions
from specviz.evidence.testing.partition import build_partition
from specviz.evidence.testing.scores import score_samples
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.statistics.goodness import compute_chi_square, compute_conditional_chi_square, compute_g_test
from specviz.statistics.positions import compute_rate_test, compute_transform_test
from specviz.statistics.random_streams import RandomUse, make_generator
from specviz.verification.token import TokenRule
from tests.helpers.toy_tables import model, pair

N, LENGTH, ALPHA = 3000, 3, 0.01
V = 5
P, Q = pair("random", 11, V, 24)


@pytest.fixture(scope="module", params=[100, pytest.param(1000, marks=pytest.mark.slow)], ids="{} seeds".format)
def p_values(request) -> dict[str, list[float]]:
    target, draft = model(P, V), model(Q, V)
    settings = Settings(max_new_tokens=LENGTH, gamma=2)
    partition = build_partition(target, (0,), LENGTH, 24, 5.0 / N)
    probs = partition.masses / partition.masses.sum()
    found: dict[str, list[float]] = {"chi-square": [], "G": [], "conditional": [], "q > p": [], "transform": []}
    for seed in range(request.param):
        samples = sample_with_shared_distributions(
            Shard(target, DraftModel(draft, 2), TokenRule(), PhiloxRandomness(seed), settings, (0,), count=N)
        )
        counts, scores = partition.count_samples(samples), score_samples(target, draft, (0,), samples)
        found["chi-square"].append(compute_chi_square(counts, probs).p_value)
        found["G"].append(compute_g_test(counts, probs).p_value)
        found["conditional"].append(compute_conditional_chi_square([g for place in scores.groups for g in place]).p_value)
        found["q > p"].append(compute_rate_test(int(scores.favored.sum()), scores.favored_mass.ravel()).p_value)
        uniform = make_generator(seed, RandomUse.TRANSFORM).random(scores.mass.size)
        found["transform"].append(compute_transform_test(scores.below.ravel(), scores.mass.ravel(), uniform).p_value)
    return found


@pytest.mark.parametrize("test", ["chi-square", "G", "conditional", "q > p", "transform"])
def test_false_alarms_are_as_many_as_the_level_says(p_values, test):
    low, high = stats.binom.interval(0.999, len(p_values[test]), ALPHA)
    assert low <= sum(p <= ALPHA for p in p_values[test]) <= high


@pytest.mark.parametrize("test", ["chi-square", "G", "conditional", "q > p", "transform"])
def test_p_values_of_a_right_decoder_are_uniform(p_values, test):
    assert stats.kstest(p_values[test], "uniform").pvalue > 0.001
