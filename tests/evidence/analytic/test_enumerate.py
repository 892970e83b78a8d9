"""Tier 1 of the evidence: 'the output of Algorithm 1 is distributed as the target' (Leviathan et al. 2023, appendix A.1), for
whole continuations of the production step. Nothing here is random but the tables, so no test can fail by chance.

The enumeration is itself put to the test: it must find the distribution without believing the record, follow a number that is met
again, see a rule that looks at several random numbers together, and agree with draws of the seed's own random numbers.
"""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from scipy import stats

from specviz.decoding.sampler import Shard, sample_with_engine
from specviz.evidence.analytic.enumeration import (
    Components,
    Enumerator,
    compute_text_tv,
    enumerate_output,
    enumerate_target,
)
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification.comparison_log import report_comparison
from specviz.verification.registry import RULES
from specviz.verification.token import TokenRule
from tests.helpers.round_cases import compute_tokens_per_pass
from tests.helpers.toy_tables import Siblings, draw_distribution, model, pair, remember
from tests.oracle import token_rule

V = 3
PROMPT = (0,)
WARPERS = (
    {},
    {"temperature": 0.0},
    {"temperature": 0.6},
    {"top_k": 2},
    {"top_p": 0.8},
    {"min_p": 0.3},
    {"temperature": 1.5, "top_k": 2, "top_p": 0.9, "min_p": 0.1},
)
EXACT = [
    rule for entry in RULES.values() if (rule := entry.build(Settings())).exact and rule.name != "k-seq"
]  # the token rule on chains


def build_worlds(seed: int, warper: dict | None = None):
    """Target and draft with a distribution for every prefix, in sevenths."""
    settings = Settings(**warper) if warper else None
    tables = (remember(lambda ids, name=name: draw_distribution((name, seed, ids), V, 7)) for name in "pq")
    return [model(table, V, settings) for table in tables]


def compute_largest_gap(one: dict, other: dict) -> float:
    return max(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other})


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
@pytest.mark.parametrize("warper", WARPERS, ids=str)
def test_the_distribution_of_three_tokens_is_the_targets_under_every_warper(warper, rule):
    target, draft = build_worlds(1, warper)
    assert (
        compute_largest_gap(
            enumerate_output(Components(target, DraftModel(draft, 2), rule), PROMPT, 3), enumerate_target(target, PROMPT, 3)
        )
        < 1e-12
    )


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
@pytest.mark.parametrize("gamma", (1, 2, 3, 4))
def test_the_distribution_of_four_tokens_is_the_targets_for_every_gamma(gamma, rule):
    target, draft = build_worlds(2)
    assert (
        compute_largest_gap(
            enumerate_output(Components(target, DraftModel(draft, gamma), rule), PROMPT, 4), enumerate_target(target, PROMPT, 4)
        )
        < 1e-12
    )


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
@pytest.mark.parametrize("gamma", (1, 2, 3, 4))
@pytest.mark.parametrize("eos_token_ids", (frozenset({1}), frozenset({0, 2})), ids=str)
def test_text_and_stopping_time_have_the_targets_joint_distribution(eos_token_ids, gamma, rule):
    target, draft = build_worlds(3, {"temperature": 0.8})
    probs = enumerate_output(Components(target, DraftModel(draft, gamma), rule, eos_token_ids=eos_token_ids), PROMPT, 3)
    assert compute_largest_gap(probs, enumerate_target(target, PROMPT, 3, eos_token_ids)) < 1e-12
    assert all(not eos_token_ids & set(text[:-1]) and (len(text) == 3 or text[-1] in eos_token_ids) for text in probs)


@pytest.mark.parametrize("length", (1, 2, 3))
def test_the_length_cap_and_the_end_of_the_context_cut_the_distribution_and_do_not_bend_it(length):
    p, q = pair("random", 5, V, 100)
    target, draft = model(p, V, context=len(PROMPT) + 1), model(q, V, context=len(PROMPT) + 1)
    probs = enumerate_output(Components(target, DraftModel(draft, 4), TokenRule()), PROMPT, length)
    assert {len(text) for text in probs} == {min(length, 2)}  # the last token need not be held by the context
    assert compute_largest_gap(probs, enumerate_target(target, PROMPT, min(length, 2))) < 1e-12


@pytest.mark.parametrize("branching", ((3,), (2, 1)))
def test_trees_keep_the_distribution_too(branching):
    target, draft = build_worlds(4)
    assert (
        compute_largest_gap(
            enumerate_output(Components(target, Siblings(draft, branching), TokenRule()), PROMPT, 2),
            enumerate_target(target, PROMPT, 2),
        )
        < 1e-12
    )


def test_no_draft_tokens_and_the_target_alone_are_one():
    target, _ = build_worlds(5)
    assert (
        compute_largest_gap(
            enumerate_output(Components(target, NoDraft(), TokenRule()), PROMPT, 3), enumerate_target(target, PROMPT, 3)
        )
        < 1e-15
    )


def test_the_targets_distribution_is_the_oracles():
    target, _ = build_worlds(6)
    expected = token_rule.target_distribution(
        lambda ids: tuple(target.compute_probs((*PROMPT, *ids)).tolist()), 3, frozenset({2})
    )
    assert compute_largest_gap(enumerate_target(target, PROMPT, 3, frozenset({2})), expected) < 1e-15


@pytest.mark.parametrize("gamma", (1, 2, 3))
def test_tokens_per_pass_are_what_the_papers_algorithm_commits(gamma):
    p, q = pair("random", 7, V, 6)
    found = compute_tokens_per_pass(Components(model(p, V), DraftModel(model(q, V), gamma), TokenRule()), PROMPT, 50)
    expected = token_rule.tokens_per_round(token_rule.Algorithm1(p, lambda ids, sibling: q(ids), (1,) * gamma).round(PROMPT))
    assert found == pytest.approx(float(expected), abs=1e-12)


# The enumeration itself ------------------------------------------------------------------------------------------------


class LyingRecord(TokenRule):
    """Decides rightly and writes down that every threshold is one half."""

    def compute_threshold(self, p, q):
        return 0.5


def test_a_record_that_lies_about_thresholds_changes_nothing():
    target, draft = build_worlds(1)
    assert (
        compute_largest_gap(
            enumerate_output(Components(target, DraftModel(draft, 2), LyingRecord()), PROMPT, 3),
            enumerate_target(target, PROMPT, 3),
        )
        < 1e-12
    )


class PairRule(TokenRule):
    """Keeps a draft token only where its own number and the next node's are both below .4: neither alone changes anything seen."""

    def verify(self, rows, block, p, randomness):
        return super().verify(rows, block, p, _Largest(randomness))

    def accepts(self, u, p, q):
        return report_comparison(u < 0.4, u, 0.4)


class _Largest:
    def __init__(self, randomness):
        self.randomness = randomness

    def take(self, purpose, rows, node, depth):
        here = self.randomness.take(purpose, rows, node, depth)
        if purpose is not Purpose.ACCEPT:
            return here
        return torch.maximum(torch.tensor(here), torch.tensor(self.randomness.take(purpose, rows, node + 7, depth))).numpy()


def test_a_rule_that_looks_at_two_uniforms_together_is_cut_rightly():
    """Kept with probability .16: then the draft token has q's distribution, else the residual's."""
    target, draft = build_worlds(8)
    p, q = target.compute_probs(PROMPT), draft.compute_probs(PROMPT)
    left = (p - q).clamp(min=0)
    expected = 0.16 * q + 0.84 * left / left.sum()
    probs = enumerate_output(Components(target, DraftModel(draft, 1), PairRule()), PROMPT, 2)
    for token in range(V):
        assert sum(mass for text, mass in probs.items() if text[0] == token) == pytest.approx(float(expected[token]), abs=1e-12)


class ByPurposeAlone:
    """One number per purpose for a whole run."""

    def __init__(self, randomness):
        self.randomness = randomness

    def take(self, purpose, rows, node, depth):
        return self.randomness.take(purpose, [replace(row, start=0) for row in rows], 0, 0)


class OneForAll(ByPurposeAlone):
    """One number for everything."""

    def take(self, purpose, rows, node, depth):
        return super().take(Purpose.DRAFT, rows, node, depth)


def test_a_number_that_draws_every_token_draws_the_same_quantile_each_time():
    """gamma 0, one bonus number for all rounds: the distribution of two tokens is the overlap of two cumulative intervals, by hand."""
    target = model(lambda ids: (0.5, 0.25, 0.25) if len(ids) == 1 else (0.25, 0.5, 0.25), V)
    probs = enumerate_output(Components(target, NoDraft(), TokenRule(), ByPurposeAlone), PROMPT, 2)
    assert compute_largest_gap(probs, {(0, 0): 0.25, (0, 1): 0.25, (1, 1): 0.25, (2, 2): 0.25}) < 1e-13


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "wrapper", (lambda randomness: randomness, ByPurposeAlone, OneForAll), ids=("right", "by purpose", "one")
)
def test_the_enumerated_distribution_is_that_of_the_seeds_own_uniforms(wrapper):
    """3,000 continuations of the engine with real random numbers against the enumerated distribution, chi-square at 1e-4 with cells below 5 expected
    pooled: a false alarm once in 10,000 choices of the seed, and texts of probability 0 are never written."""
    target, draft = build_worlds(9)
    proposer, settings, n = DraftModel(draft, 2), Settings(max_new_tokens=3), 3000
    probs = enumerate_output(Components(target, proposer, TokenRule(), wrapper), PROMPT, 3)
    assert sum(probs.values()) == pytest.approx(1, abs=1e-12)
    shard = Shard(target, proposer, TokenRule(), wrapper(PhiloxRandomness(7)), settings, PROMPT, count=n)
    drawn = Counter(map(tuple, sample_with_engine(shard).tokens.tolist()))
    assert {*drawn} <= {text for text, mass in probs.items() if mass > 0}
    large = [text for text, mass in probs.items() if mass * n >= 5]
    counts, masses = [drawn[text] for text in large], [probs[text] for text in large]
    if (rest := 1 - sum(masses)) > 1e-9:
        counts, masses = [*counts, n - sum(counts)], [*masses, rest]
    statistic = sum((count - n * mass) ** 2 / (n * mass) for count, mass in zip(counts, masses, strict=True))
    assert stats.chi2.sf(statistic, len(counts) - 1) > 1e-4


def test_a_uniform_used_for_everything_bends_the_distribution_far():
    target, draft = build_worlds(9)
    exact = enumerate_target(target, PROMPT, 3)
    for wrapper in (ByPurposeAlone, OneForAll):
        assert (
            compute_text_tv(enumerate_output(Components(target, DraftModel(draft, 2), TokenRule(), wrapper), PROMPT, 3), exact)
            > 0.05
        )


def test_boxes_of_a_round_fill_the_cube():
    target, draft = build_worlds(10)
    walk = Enumerator(Components(target, DraftModel(draft, 3), TokenRule()))
    assert sum(mass for _, mass, _ in walk.list_outcomes(Prefix(PROMPT, 0, 9), {})) == pytest.approx(1, abs=1e-12)
