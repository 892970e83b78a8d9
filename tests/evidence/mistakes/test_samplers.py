"""'A mutant replaces or wraps one argument': so each runs wherever ``decode`` does, on tables, through caches, on shared distributions.

No test here can fail by chance: numbers are compared with numbers.
"""

import numpy as np
import pytest
import torch

from specviz.decoding.engine import decode
from specviz.decoding.sampler import Shard, sample_with_engine, sample_with_shared_distributions
from specviz.evidence.mistakes.components import RowBeforeModel
from specviz.evidence.mistakes.registry import MISTAKES, open_tables
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree
from tests.helpers import toy_tables

SHARED = [mutant.id for mutant in MISTAKES.values() if mutant.on_shared_distributions]


@pytest.mark.fast_cases(14)
@pytest.mark.parametrize("prompt", ((0,), (0, 2)))
@pytest.mark.parametrize("name", SHARED)
def test_on_shared_distributions_each_draw_is_the_engines_own(name, prompt):
    """Random numbers taken as slices, distributions drawn from and distributions claimed, rules on tensors: 200 draws of four tokens, number by number."""
    mutant = MISTAKES[name]
    settings = mutant.apply_settings(Settings(seed=11))
    settings = Settings(**{**settings.to_record(), "uniforms": {}, "max_new_tokens": 4, "gamma": 2})
    open_ = open_tables(*toy_tables.pair("random", 3, 4, 100))
    drawn = []
    for draw in (sample_with_shared_distributions, sample_with_engine):
        made = mutant.build(open_, settings)
        randomness = made.randomness(PhiloxRandomness(11))
        shard = Shard(made.target, made.proposer, made.rule, randomness, settings, prompt, frozenset({1}), count=200)
        drawn.append(draw(shard).tokens)
    assert np.array_equal(*drawn)


@pytest.mark.fast_cases(12)
@pytest.mark.parametrize("mutant", MISTAKES.values(), ids=MISTAKES)
def test_it_runs_through_the_caches_of_a_pair(mutant, pair):
    """24 tokens after a prompt of three; what the rule was handed is distribution-shaped, and the length is met."""
    settings = mutant.apply_settings(Settings(seed=5))
    settings = Settings(**{**settings.to_record(), "uniforms": {}, "max_new_tokens": 24})
    made = mutant.build(pair.open, settings)
    rounds = list(decode(made.target, made.proposer, made.rule, made.randomness(PhiloxRandomness(5)), settings, (1, 2, 3)))
    assert sum(len(round_.committed) for round_ in rounds) == 24
    for round_ in rounds:
        assert torch.allclose(round_.full.p.sum(-1), torch.ones(()).double())


@pytest.mark.parametrize("name", ("R1", "R2", "R16", "gate"))
def test_a_misreporting_proposer_hands_over_distributions_it_did_not_draw_from(name, pair):
    """Through the caches: q is the claimed source's distribution after the draft token's own prefix, and the draft token is a draw from the other's."""
    mutant = MISTAKES[name]
    settings = mutant.apply_settings(Settings(seed=5))
    made, fresh = mutant.build(pair.open, settings), mutant.build(pair.open, settings)
    block = made.proposer.propose([Prefix((1, 2, 3), 0, 9)], PhiloxRandomness(5))
    for node in range(len(block.tokens[0])):
        row = [Prefix((1, 2, 3, *block.tokens[0][:node]), 0, 9)]
        claimed, drawn = (
            one.compute_distributions(row, build_empty_tree(1))[0, 0] for one in (fresh.proposer.claimed, fresh.proposer.draft)
        )
        assert float((block.q[0][node] - claimed).abs().sum()) < 1e-5 < float((drawn - claimed).abs().sum())
        assert drawn[block.tokens[0][node]] > 0


@pytest.mark.parametrize("prompt", ((4,), (4, 5, 6)))
def test_a_row_too_early_is_the_distribution_of_the_shorter_text(prompt, pair):
    """After ids what belongs after ids[:-1], on a tree of two branches; a text of one token keeps its own distribution."""
    block = DraftTree(((1, 2, 3),), ((ROOT, 0, ROOT),), (None,), ((None,) * 3,), "tree")
    paths = [(), (1,), (1, 2), (3,)]
    late = RowBeforeModel(pair.open(Settings())[0]).compute_distributions([Prefix(prompt, 0, 9)], block)[0]
    source = pair.open(Settings())[0]
    for probs, path in zip(late, paths, strict=True):
        ids = (*prompt, *path)
        expected = source.compute_distributions([Prefix(ids[:-1] or ids, 0, 9)], build_empty_tree(1))[0, 0]
        assert float((probs - expected).abs().sum()) < 1e-5


@pytest.mark.parametrize("name", ("R6", "R7", "R18", "R35"))
def test_mutated_uniforms_are_the_same_one_by_one_and_in_slices(name):
    randomness = (
        MISTAKES[name].build(open_tables((0.5, 0.5), (0.5, 0.5)), MISTAKES[name].settings).randomness(PhiloxRandomness(3))
    )
    for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL, Purpose.BONUS):
        for start, node in ((0, 0), (0, 1), (2, 0), (2, 1)):
            one = randomness.take(purpose, [Prefix((0,), start, 9, draw) for draw in range(5)], node, node)
            assert np.array_equal(one, randomness.stream(purpose, start, node, 0, 5))
