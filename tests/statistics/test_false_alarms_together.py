"""The same of all tests together, of two samples and of the stopping time: as often as the level says, no more and no less.

1,000 seeds of the speculative decoder on one pair of tables whose texts may end, each examined as ``verify`` examines it. The
number of rejections of each test at its level must lie in the central 99.9% of Binomial(1000, level): too few would mean a test
that cannot fail. The p-values must be uniform: Kolmogorov-Smirnov refuses a uniform thousand once in 1,000 times. All
tests together may reject at most as often as alpha (Holm 1979), and at least as often as one of them alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specviz.decoding.engine import TargetOnlyRandomness
from specviz.decoding.sampler import Shard, sample_with_shared_distributions
from specviz.evidence.testing.hypothesis_tests import TestPlan, run_tests
from specviz.evidence.testing.partition import build_partition
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.token import TokenRule
from tests.helpers.toy_tables import model, pair

pytestmark = pytest.mark.slow

SEEDS, N, ALONE, LENGTH, ALPHA = 1000, 2000, 400, 3, 0.2
V, EOS_TOKEN_IDS = 5, frozenset({4})
P, Q = pair("random", 11, V, 24)
TESTS = (
    "chi-square",
    "G",
    "next tokens given their prefix",
    *(f"tokens with q > p at position {place + 1}" for place in range(LENGTH)),
    "stopping time: tokens that end a text",
    "probability transform",
    "two samples: these and target-only",
)


@pytest.fixture(scope="module")
def answers():
    target, draft = model(P, V), model(Q, V)
    plan = TestPlan.for_distance(N, LENGTH, 0.2, ALPHA)
    partition = build_partition(target, (0,), LENGTH, 24, 5.0 / N, EOS_TOKEN_IDS)

    def examined(seed: int):
        settings = Settings(max_new_tokens=LENGTH, gamma=2, seed=seed)
        given = settings, (0,), EOS_TOKEN_IDS
        samples = sample_with_shared_distributions(
            Shard(target, DraftModel(draft, 2), TokenRule(), PhiloxRandomness(seed), *given, count=N)
        )
        alone = sample_with_shared_distributions(
            Shard(target, NoDraft(), TokenRule(), TargetOnlyRandomness(PhiloxRandomness(seed + SEEDS)), *given, count=ALONE)
        )
        return run_tests(plan, target, draft, (0,), samples, "shared distributions", EOS_TOKEN_IDS, alone, partition=partition)

    return [examined(seed) for seed in range(SEEDS)]


@pytest.fixture(scope="module")
def p_values(answers) -> dict[str, np.ndarray]:
    names = [test.name for test in answers[0].tests]
    assert names == list(TESTS)
    return dict(zip(names, np.array([[test.p_value for test in one.tests] for one in answers]).T, strict=True))


def find_level(name: str, answers) -> float:
    """A permutation p-value is a multiple of 1 / (B + 1), so its test's own level is the largest of these up to the plan's."""
    level = answers[0].plan.level
    steps = int(1.5 / level) + 1
    return int(level * steps) / steps if name.startswith("two samples") else level


@pytest.mark.parametrize("name", TESTS)
def test_false_alarms_are_as_many_as_the_level_says(answers, p_values, name):
    level = find_level(name, answers)
    low, high = stats.binom.interval(0.999, SEEDS, level)
    assert 1 <= low <= (p_values[name] <= level).sum() <= high


@pytest.mark.parametrize("name", TESTS)
def test_p_values_of_a_right_decoder_are_uniform(p_values, name):
    assert stats.kstest(p_values[name], "uniform").pvalue > 0.001


def test_all_tests_together_reject_a_right_decoder_as_seldom_as_alpha_says(answers):
    """The tests use the same draws, so Holm's rate lies between that of a single test and alpha."""
    low, _ = stats.binom.interval(0.999, SEEDS, answers[0].plan.level)
    _, high = stats.binom.interval(0.999, SEEDS, ALPHA)
    assert 1 <= low <= sum(one.verdict == "rejected" for one in answers) <= high
