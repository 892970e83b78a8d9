"""Typical acceptance is no sampling: 'a candidate is accepted when its probability exceeds min(epsilon, delta exp(-H))' (Cai et
al. 2024, Medusa, section 2.3.1), so tokens below the bar are never written at all. By hand, then every outcome of the production
rule: how far its distribution lies from the target's, and where the two coincide. Nothing is random but the tables.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from math import exp, log, sqrt

import pytest
import torch

from specviz.decoding.engine import step
from specviz.decoding.method_checks import build_rule
from specviz.errors import SettingsError
from specviz.evidence.analytic.enumeration import Components, compute_text_tv, enumerate_output, enumerate_target
from specviz.models.table import TableModel
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.registry import RULES
from specviz.verification.typical import TypicalRule, compute_typical_bound
from tests.helpers.toy_tables import FixedTree, Siblings, model, pair
from tests.oracle.other_rules import constant

PROMPT, EPSILON = (0,), 0.09
P, Q = (F(60, 100), F(34, 100), F(5, 100), F(1, 100)), (F(1, 4),) * 4


def enumerate_typical(p, q, length: int, rule=None, gamma: int = 1) -> dict:
    return enumerate_output(Components(model(p, 4), DraftModel(model(q, 4), gamma), rule or TypicalRule(EPSILON)), PROMPT, length)


def build_warped_model(table, settings: Settings) -> TableModel:
    return TableModel(table, 3, settings)


def test_the_bar_is_the_papers_formula():
    even, sure = torch.full((4,), 0.25, dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert compute_typical_bound(even, EPSILON) == pytest.approx(sqrt(EPSILON) * exp(-log(4)))
    assert compute_typical_bound(sure, EPSILON) == EPSILON and compute_typical_bound(even, 1e-6) == 1e-6


def test_its_distribution_by_hand_on_one_table():
    """H = 0.87 nats, so the bar is 0.09, less than 0.3 exp(-H) = 0.126. Tokens 2 and 3 lie below it: a draft token of one of them
    becomes token 0, the likeliest, as does every token for which there is no draft token. TV 0.15 for a token drafted from the
    uniform draft, 0.4 for one without."""
    probs = enumerate_typical(constant(P), constant(Q), 2)
    first = {x: sum(mass for text, mass in probs.items() if text[0] == x) for x in range(4)}
    assert first == pytest.approx({0: 3 / 4, 1: 1 / 4, 2: 0, 3: 0}, abs=1e-12)
    assert compute_text_tv({(x,): mass for x, mass in first.items()}, {(x,): float(m) for x, m in enumerate(P)}) == pytest.approx(
        0.15
    )
    assert all(text[1] == 0 for text in probs), "with room for no further draft token the last token is the likeliest"
    assert enumerate_typical(constant(P), constant(Q), 1) == pytest.approx({(0,): 1.0}), "TV .4"


@pytest.mark.parametrize("proposer", ("chain", "siblings", "fixed tree"))
@pytest.mark.parametrize("seed", range(4))
def test_its_distribution_lies_far_from_the_targets_on_every_table(seed, proposer):
    """Random tables of 4 tokens in hundredths, length 2. At least the mass of the texts that hold a token which is neither
    typical nor the likeliest: those are never written."""
    p, q = pair("random", seed, 4, 7)
    made = {
        "chain": lambda: DraftModel(model(q, 4), 2),
        "siblings": lambda: Siblings(model(q, 4), (2,)),
        "fixed tree": lambda: FixedTree(lambda ids, i: i, (3, 1), 4),
    }[proposer]()
    target = model(p, 4)
    probs, truth = (
        enumerate_output(Components(target, made, TypicalRule(EPSILON)), PROMPT, 2),
        enumerate_target(target, PROMPT, 2),
    )
    lost = sum(mass for text, mass in truth.items() if text not in probs)
    assert compute_text_tv(probs, truth) >= max(lost, 0.2) - 1e-12


@pytest.mark.parametrize("epsilon", (1e-6, EPSILON, 1.0))
@pytest.mark.parametrize("seed", range(3))
def test_at_temperature_0_it_coincides_with_the_target(seed, epsilon):
    """There the target's distribution is certain of one token, and so is the rule, whatever was drafted."""
    greedy = Settings(temperature=0.0)
    p, q = pair("random", seed, 3, 7)
    target = build_warped_model(p, greedy)
    for draft in (build_warped_model(q, greedy), model(q, 3)):
        probs = enumerate_output(Components(target, DraftModel(draft, 2), TypicalRule(epsilon)), PROMPT, 3)
        assert compute_text_tv(probs, enumerate_target(target, PROMPT, 3)) < 1e-12


def test_a_cut_that_leaves_one_token_makes_it_coincide_too_and_one_that_leaves_two_does_not():
    p, q = pair("random", 3, 3, 7)
    for settings, alike in ((Settings(top_k=1), True), (Settings(top_k=2), False)):
        target = build_warped_model(p, settings)
        probs = enumerate_output(Components(target, DraftModel(model(q, 3), 2), TypicalRule(EPSILON)), PROMPT, 2)
        assert (compute_text_tv(probs, enumerate_target(target, PROMPT, 2)) < 1e-12) is alike


def test_it_accepts_the_longest_typical_path_and_the_likelier_of_two_equally_long_ones():
    """Draft tokens 0 and 1 are typical everywhere, 2 nowhere; under 0 stands 2, under 1 stands 0: the way 1, 0 is longer."""
    probs = constant((F(5, 10), F(45, 100), F(5, 100)))
    for below, accepted in (({0: 2, 1: 0}, (1, 0)), ({0: 0, 1: 0}, (0, 0)), ({0: 2, 1: 2}, (0,))):

        def draft_token(ids, sibling, below=below):
            return below.get(ids[-1], 2) if len(ids) > 1 else sibling

        tree = FixedTree(draft_token, (2, 1), 3)
        (round_,) = step([Prefix(PROMPT, 0, 9)], model(probs, 3), tree, TypicalRule(EPSILON), PhiloxRandomness(1))
        assert round_.committed == (*accepted, 0)


def test_random_numbers_decide_nothing():
    """The same draft tokens under fifty seeds, so fifty different random numbers, are one and the same round."""
    p, _ = pair("random", 5, 3, 7)
    tree = FixedTree(lambda ids, i: i, (2, 2), 3)
    row, rule = Prefix(PROMPT, 0, 9), TypicalRule(EPSILON)
    rounds = [step([row], model(p, 3), tree, rule, PhiloxRandomness(seed))[0] for seed in range(50)]
    assert len({(round_.accepted_path, round_.committed) for round_ in rounds}) == 1
    assert {one.threshold for one in rounds[0].proposals if one.accepted is not None} <= {0.0, 1.0}


def test_every_rule_that_is_not_exact_says_lossy_in_its_title():
    rules = {name: entry.build(Settings()) for name, entry in RULES.items()}
    assert all(rule.exact is ("lossy" not in rule.title) and rule.name == name for name, rule in rules.items())
    assert [name for name, rule in rules.items() if not rule.exact] == ["typical"]


@pytest.mark.parametrize("epsilon", (0.0, -0.1, 1.5, float("nan"), "much"))
def test_an_epsilon_out_of_range_is_a_sentence(epsilon):
    with pytest.raises(SettingsError, match="typical-epsilon must be above 0 and at most 1, got"):
        Settings(typical_epsilon=epsilon)


def test_settings_give_epsilon_and_an_unknown_rule_is_refused_with_the_known_names():
    assert build_rule(Settings(rule="typical", typical_epsilon=0.3)).epsilon == 0.3
    with pytest.raises(SettingsError, match="rule must be one of token, block, k-seq, typical, got 'magic'"):
        build_rule(replace(Settings(), rule="magic"))
