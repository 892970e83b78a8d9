"""Block verification: 'the output follows the target's distribution', and 'no fewer tokens than token verification in every
iteration' (Sun et al. 2024, theorems 1 and 2): on fractions by the paper's own algorithm, then every outcome of the production
rule. Nothing is random but the tables, so no test can fail by chance.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest
import torch

from specviz.decoding.engine import decode, step
from specviz.decoding.method_checks import build_rule
from specviz.errors import SettingsError
from specviz.evidence.analytic.enumeration import (
    Components,
    Enumerator,
    compute_text_tv,
    enumerate_output,
    enumerate_target,
)
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification.block import BlockRule, compute_block_weights
from specviz.verification.draft_tree import DraftTree
from specviz.verification.token import TokenRule
from tests.helpers.round_cases import compute_tokens_per_pass
from tests.helpers.toy_tables import DRAFTS, RecordingRandomness, ScriptedRandomness, Siblings, model, pair
from tests.oracle import token_rule
from tests.oracle.other_rules import BlockVerification, constant

PROMPT = (0,)
THIRDS = (F(1, 3), F(2, 3)), (F(2, 3), F(1, 3))


def build_algorithm1(p, q, gamma: int) -> token_rule.Algorithm1:
    return token_rule.Algorithm1(p, lambda prefix, sibling: q(prefix), (1,) * gamma)


def enumerate_round(p, q, gamma: int) -> dict:
    walk = Enumerator(Components(model(p, 3), DraftModel(model(q, 3), gamma), BlockRule()))
    return walk.enumerate_round(Prefix(PROMPT, 0, 9))


@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize(("vocabulary", "gamma", "length"), ((2, 1, 2), (2, 2, 3), (2, 3, 3), (3, 2, 2), (3, 2, 3)))
def test_on_fractions_the_papers_algorithm_writes_exactly_the_targets_distribution(kind, vocabulary, gamma, length):
    for seed in range(3):
        p, q = pair(kind, seed, vocabulary, 6)
        probs = token_rule.decoder_distribution(BlockVerification(p, q, gamma).round, length)
        assert probs == token_rule.target_distribution(p, length)


@pytest.mark.parametrize(("kind", "gamma"), [(kind, gamma) for kind in DRAFTS for gamma in (1, 2)] + [("random", 3)])
def test_one_round_of_the_production_rule_is_one_round_of_the_papers(kind, gamma):
    """Every text that a round can commit, with the probability that the fractions give it."""
    p, q = pair(kind, 4, 3, 12)
    found = enumerate_round(p, q, gamma)
    expected = BlockVerification(p, q, gamma).round(PROMPT)
    assert max(abs(found.get(text, 0.0) - float(expected.get(text, 0))) for text in {*found, *expected}) < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_several_rounds_of_the_production_rule_keep_the_distribution(seed):
    p, q = pair("random", seed, 3, 7)
    probs = enumerate_output(Components(model(p, 3), DraftModel(model(q, 3), 2), BlockRule()), PROMPT, 3)
    assert compute_text_tv(probs, enumerate_target(model(p, 3), PROMPT, 3)) < 1e-12


def test_the_papers_example_accepts_11_9_of_two_draft_tokens_and_the_token_rule_10_9():
    p, q = map(constant, THIRDS)
    assert token_rule.tokens_per_round(BlockVerification(p, q, 2).round(())) == 1 + F(11, 9)
    assert token_rule.tokens_per_round(build_algorithm1(p, q, 2).round(())) == 1 + F(10, 9)
    for rule, accepted in ((BlockRule(), 11 / 9), (TokenRule(), 10 / 9)):
        assert compute_tokens_per_pass(Components(model(p, 2), DraftModel(model(q, 2), 2), rule), PROMPT, 9) == pytest.approx(
            1 + accepted, abs=1e-12
        )


@pytest.mark.parametrize("kind", DRAFTS)
def test_never_fewer_tokens_than_the_token_rule_on_any_table(kind):
    """20 tables a kind, on fractions; with random drafts nearly every one gives more."""
    more = 0
    for seed in range(20):
        p, q = pair(kind, seed, 3, 12)
        block, token = (
            token_rule.tokens_per_round(one.round(())) for one in (BlockVerification(p, q, 3), build_algorithm1(p, q, 3))
        )
        assert block >= token
        more += block > token
    assert more >= {"random": 15, "uniform": 15}.get(kind, 0)


def test_a_chain_may_end_where_its_own_draft_tokens_say_so():
    """A stop that looks at the draft tokens but at no random number of the rule: exact on fractions, 12 tables."""
    for seed in range(12):
        p, q = pair("random", seed, 2, 6)
        rule = BlockVerification(p, q, 3, continues=lambda chain: not chain or chain[-1] == 0)
        assert token_rule.decoder_distribution(rule.round, 3) == token_rule.target_distribution(p, 3)


def test_with_the_token_rules_residual_the_distribution_changes():
    """R17, and the proof that the tests above can fail: after accepted draft tokens the residual is of w p, not of p. 20 tables
    of four tokens; where only one token is short of mass both residuals are that token."""

    class Mixed(BlockVerification):
        def compute_replacement(self, joint, p, q):
            return super().compute_replacement(F(1), p, q)

    lost = []
    for seed in range(20):
        p, q = pair("random", seed, 4, 12)
        probs = token_rule.decoder_distribution(Mixed(p, q, 2).round, 2)
        lost.append(token_rule.total_variation(probs, token_rule.target_distribution(p, 2)))
    assert sum(tv > F(1, 1000) for tv in lost) >= 5 and max(lost) > F(1, 100)


def test_each_decision_records_the_threshold_that_u_was_compared_with():
    """A u just below the recorded threshold accepts the draft tokens up to its own, a u just above it none; later ones are 1 - 2^-53."""
    p, q = pair("random", 3, 3, 7)
    target, proposer, last = model(p, 3), DraftModel(model(q, 3), 3), 1 - 2**-53
    base = {(Purpose.ACCEPT, node): last for node in range(3)}
    (first,) = step([Prefix(PROMPT, 0, 9)], target, proposer, BlockRule(), ScriptedRandomness([base]))
    for node, decision in enumerate(first.proposals):
        for u, accepted in ((decision.threshold - 1e-12, node + 1), (decision.threshold + 1e-12, 0)):
            if 0 <= u < 1 and decision.threshold < 1:
                randomness = ScriptedRandomness([base | {(Purpose.ACCEPT, node): u}])
                (round_,) = step([Prefix(PROMPT, 0, 9)], target, proposer, BlockRule(), randomness)
                thresholds = [one.threshold for one in round_.proposals]
                late = max((i + 1 for i, edge in enumerate(thresholds) if edge == 1), default=0)
                assert len(round_.accepted_path) == max(accepted, late)
                assert round_.proposals[node].u == u and thresholds == [one.threshold for one in first.proposals]


def test_a_later_u_accepts_a_draft_token_whose_own_u_would_not():
    """p = (1/3, 2/3), q = (2/3, 1/3), draft tokens 0 then 1: w = 1/2, then 1; only the second random number decides."""
    p, q = map(constant, THIRDS)
    script = {(Purpose.DRAFT, 0): 0.0, (Purpose.DRAFT, 1): 0.9, (Purpose.ACCEPT, 0): 0.999, (Purpose.ACCEPT, 1): 0.999}
    (round_,) = step([Prefix(PROMPT, 0, 9)], model(p, 2), DraftModel(model(q, 2), 2), BlockRule(), ScriptedRandomness([script]))
    assert [one.threshold for one in round_.proposals] == pytest.approx([0, 1]) and round_.accepted_path == (0, 1)
    assert all(one.accepted for one in round_.proposals) and round_.ending.kind == "bonus"


def test_the_first_rejected_draft_token_is_replaced_and_its_stand_in_is_the_replacement():
    """All random numbers are used; the record gives the position of the replacement, not that of the last random number."""
    p, q = pair("random", 1, 3, 7)
    rows = [Prefix(PROMPT, 0, 9, draw) for draw in range(60)]
    seen = 0
    for round_ in step(rows, model(p, 3), DraftModel(model(q, 3), 3), BlockRule(), PhiloxRandomness(3), bars=3):
        assert all(one.accepted is (node < len(round_.accepted_path)) for node, one in enumerate(round_.proposals))
        if round_.ending.kind == "residual":
            rejected = round_.proposals[len(round_.accepted_path)]
            assert (rejected.replacement_if_rejected, rejected.u_replacement_if_rejected) == (
                round_.ending.token,
                round_.ending.u,
            )
            seen += len(round_.accepted_path) < 2
    assert seen > 5


def test_what_is_shown_of_a_place_is_what_the_rule_draws_from():
    """Overlap and what is left add up to w p, token by token."""
    p, q = pair("random", 2, 3, 7)
    proposer, target = DraftModel(model(q, 3), 3), model(p, 3)
    block = proposer.propose([Prefix(PROMPT, 0, 9)], PhiloxRandomness(1))
    distributions = target.compute_distributions([Prefix(PROMPT, 0, 9)], block)[0]
    found = compute_block_weights(block.tokens[0], distributions, block.q[0])
    for node in range(3):
        shown = BlockRule().view_node(block, 0, distributions, node)
        assert torch.equal(shown.probs, distributions[node]) and torch.equal(shown.left, found.left[node])
        assert torch.allclose(shown.overlap + shown.left, found.weights[node] * distributions[node], atol=1e-15)


def test_a_token_that_the_target_excludes_is_never_accepted_and_equal_distributions_always_are():
    never, always = (((1.0, 0.0), (0.0, 1.0)), ((0.5, 0.5), (0.5, 0.5)))
    for (p, q), accepted, u in ((never, 0, 0.0), (always, 3, 1 - 2**-53)):
        script = {(purpose, node): u for purpose in Purpose for node in range(4)}
        target, draft = model(constant(p), 2), model(constant(q), 2)
        (round_,) = step([Prefix(PROMPT, 0, 9)], target, DraftModel(draft, 3), BlockRule(), ScriptedRandomness([script]))
        assert len(round_.accepted_path) == accepted


def test_where_equal_distributions_differ_by_rounding_a_rejection_with_an_empty_residual_draws_from_the_target():
    """p a last digit below q: the threshold is a hair below 1, the largest random number reaches it, and max(0, p - q) is zero everywhere."""
    q = torch.tensor([[0.0, 0.25, 0.75]], dtype=torch.float64)
    block = DraftTree(((1,),), ((-1,),), (q,), ((0.5,),), "draft")
    p = torch.stack((q[0] * (1 - 2.0**-52), q[0]))[None]

    class Largest:
        def take(self, purpose, rows, node, depth):
            return [1.0 - 2.0**-53 if purpose is Purpose.ACCEPT else 0.0]

    (outcome,) = BlockRule().verify([Prefix(PROMPT, 0, 9)], block, p, Largest())
    assert outcome.accepted_path == () and outcome.ending.token == 1, "id 0 has no mass"


def test_no_address_is_used_twice_in_a_run_and_rows_do_not_affect_each_other():
    p, q = pair("random", 5, 3, 7)
    target, proposer, randomness = model(p, 3), DraftModel(model(q, 3), 3), RecordingRandomness(PhiloxRandomness(2))
    list(decode(target, proposer, BlockRule(), randomness, Settings(max_new_tokens=20), PROMPT))
    assert not randomness.reused
    rows = [Prefix(PROMPT, 0, 9, draw) for draw in range(8)]
    together = step(rows, target, proposer, BlockRule(), PhiloxRandomness(2))
    assert together == [step([row], target, proposer, BlockRule(), PhiloxRandomness(2))[0] for row in rows]


@pytest.mark.parametrize(
    ("rule", "fields", "fits"),
    (
        ("block", {"proposer": "tree", "tree_budget": 2}, False),
        ("block", {"proposer": "medusa"}, False),
        ("block", {"proposer": "several"}, False),
        ("block", {"proposer": "several", "num_chains": 1}, True),
        ("block", {"proposer": "tree", "tree": "1-1-1"}, True),
        ("block", {"proposer": "tree", "tree_budget": 1}, True),
        ("k-seq", {"proposer": "tree", "tree_budget": 4}, False),
        ("k-seq", {"proposer": "tree", "siblings": "independent", "temperature": 0.0}, False),
        ("k-seq", {"proposer": "tree", "siblings": "independent"}, True),
        ("k-seq", {"proposer": "several", "temperature": 0.0}, True),
    ),
)
def test_a_rule_that_cannot_judge_the_proposer_is_refused_before_any_model_is_read(rule, fields, fits):
    """A tree under a budget may begin as a chain: no text ends in the middle because a later one branches."""
    settings = Settings(rule=rule, **fields)
    if fits:
        assert build_rule(settings).name == rule
    else:
        with pytest.raises(SettingsError, match="rule must be"):
            build_rule(settings)


def test_a_tree_is_refused_with_a_sentence():
    p, q = pair("random", 5, 3, 7)
    with pytest.raises(SettingsError, match=r"rule must be token, k-seq or typical here: block judges chains.*, got 'block'"):
        step([Prefix(PROMPT, 0, 9)], model(p, 3), Siblings(model(q, 3), (2,)), BlockRule(), PhiloxRandomness(2))
    empty = DraftTree(((),), ((),), (None,), ((),), "none")
    (outcome,) = BlockRule().verify(
        [Prefix(PROMPT, 0, 1)], empty, torch.tensor([[[0.0, 1.0]]], dtype=torch.float64), PhiloxRandomness(1)
    )
    assert outcome.committed == (1,) and replace(outcome.ending, u=0.0).kind == "bonus"
