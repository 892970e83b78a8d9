"""'Exactness comes from the rule, not from the proposer': every proposer of the gallery under every exact rule that can judge it
has the target's distribution, enumerated over all outcomes of the production step (Leviathan et al. 2023, A.1; Miao et al. 2024;
Sun et al. 2024). Then what each proposer says of itself, on tables. Nothing here is random but the tables.
"""

import pytest
import torch

from specviz.decoding.engine import decode, step
from specviz.decoding.method_checks import build_rule
from specviz.errors import SettingsError
from specviz.evidence.analytic.enumeration import (
    Components,
    compute_text_tv,
    enumerate_output,
    enumerate_target,
)
from specviz.proposers import adaptive as policies
from specviz.proposers.draft import DraftModel
from specviz.proposers.several_chains import SeveralChains
from specviz.proposers.trees.budget import BudgetTree
from specviz.proposers.trees.fixed import FixedTree, find_most_likely
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, compute_node_depth, find_children
from specviz.verification.token import TokenRule
from tests.helpers.proposer_cases import CASES, SAME_DISTRIBUTION, TREES, build_case_world, list_rules
from tests.helpers.round_cases import compute_tokens_per_pass
from tests.helpers.toy_tables import RecordingRandomness, model, pair

PROMPT = (0, 1)
JUDGED = [(name, rule) for name in CASES for rule in list_rules(name)]
LONG = (
    "heuristic",
    "gain",
    "uniform, heuristic",
    "lookahead",
    "lookahead, two n-grams",
)  # five tokens: later rounds differ from the first
BINARY = {*SAME_DISTRIBUTION, *LONG}  # many draws of three tokens take long to walk; test_several_drafts.py walks such siblings


@pytest.fixture(autouse=True)
def thresholds_that_three_tokens_meet(monkeypatch):
    """The entropy of three tokens never gets near the bounds that are right for thousands."""
    monkeypatch.setattr(policies, "LEAST", 0.6)
    monkeypatch.setattr(policies, "ACCEPTANCE_MIN", 0.5)


def measure_distance(name: str, seed: int, vocabulary: int, rule: str, length: int, **warper) -> float:
    target, proposer = build_case_world(name, seed, vocabulary, **warper)
    written = enumerate_output(Components(target, proposer, build_rule(Settings(rule=rule))), PROMPT, length)
    return compute_text_tv(written, enumerate_target(target, PROMPT, length))


@pytest.mark.parametrize(("name", "rule"), JUDGED)
def test_texts_have_the_targets_distribution(name, rule):
    assert measure_distance(name, 1, 2 if name in BINARY else 3, rule, 5 if name in LONG else 3) < 1e-12


@pytest.mark.fast_cases(20)
@pytest.mark.parametrize("warper", ({"temperature": 0.0}, {"temperature": 0.8, "top_p": 0.8}), ids=str)
@pytest.mark.parametrize("name", CASES)
def test_under_every_temperature_and_cut_texts_have_the_targets_distribution(name, warper):
    assert measure_distance(name, 2, 2 if name in TREES else 3, "token", 3, **warper) < 1e-12


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("name", CASES)
def test_text_and_stopping_time_have_the_targets_joint_distribution(name):
    target, proposer = build_case_world(name, 3, 2 if name in TREES else 3)
    eos_token_ids = frozenset({1})
    written = enumerate_output(Components(target, proposer, TokenRule(), eos_token_ids=eos_token_ids), PROMPT, 3)
    assert compute_text_tv(written, enumerate_target(target, PROMPT, 3, eos_token_ids)) < 1e-12


@pytest.mark.parametrize("name", TREES)
def test_the_rule_for_chains_refuses_trees_with_a_sentence(name):
    target, proposer = build_case_world(name, 1)
    with pytest.raises(SettingsError, match="rule must be token"):
        step([Prefix((0, 1, 0, 0, 1, 1, 0), 0, 9)], target, proposer, build_rule(Settings(rule="block")), PhiloxRandomness(0))


# What every proposer promises -------------------------------------------------------------------------------------------------


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize("name", CASES)
def test_no_more_levels_than_the_remaining_tokens_allow(name):
    _, proposer = build_case_world(name, 4, gamma=8)
    for remaining in (1, 2, 3, 9):
        block = proposer.propose([Prefix(PROMPT, 0, remaining, draw) for draw in range(20)], PhiloxRandomness(1))
        for parents in block.parents:
            assert all(compute_node_depth(parents, node) + 1 <= remaining - 1 for node in range(len(parents)))


@pytest.mark.parametrize("name", CASES)
def test_parents_stand_before_children_and_every_array_has_its_row(name):
    _, proposer = build_case_world(name, 5)
    block = proposer.propose([Prefix((0, 1, 2, 0, 1), 3, 9, draw) for draw in range(20)], PhiloxRandomness(2))
    for tokens, parents, q, numbers in zip(block.tokens, block.parents, block.q, block.u_draft, strict=True):
        assert len(tokens) == len(parents) == len(numbers) == (0 if q is None else len(q))
        assert all(parent < node for node, parent in enumerate(parents))
        for node, token in enumerate(tokens):
            assert q[node, token] > 0 and float(q[node].sum()) == pytest.approx(1, abs=1e-12)


# What some of them are ----------------------------------------------------------------------------------------------------------


def test_a_bad_draft_costs_speed_and_an_oracle_loses_nothing():
    """Enumerated tokens per pass, gamma 2: three where q = p; less the worse the draft, and never less than one."""
    found = {}
    for name in ("oracle", "draft", "adversarial", "none"):
        target, proposer = build_case_world(name, 1)
        found[name] = compute_tokens_per_pass(Components(target, proposer, TokenRule()), PROMPT, 9)
    assert found["oracle"] == pytest.approx(3, abs=1e-12) and found["none"] == 1
    assert found["none"] < found["adversarial"] < found["oracle"] > found["draft"]


def propose_tree(proposer, rows=None, seed: int = 3):
    return proposer.propose(rows or [Prefix(PROMPT, 0, 9, draw) for draw in range(30)], PhiloxRandomness(seed))


def are_same(one, other) -> bool:
    """The same tokens from the same distributions with the same random numbers."""
    equal = all(torch.equal(a, b) for a, b in zip(one.q, other.q, strict=True))
    return equal and (one.tokens, one.parents, one.u_draft) == (other.tokens, other.parents, other.u_draft)


@pytest.mark.parametrize(
    "make",
    (
        lambda draft: SeveralChains(draft, 1, 3),
        lambda draft: FixedTree(draft, (1, 1, 1), "independent"),
        lambda draft: FixedTree(draft, (1, 1, 1), "distinct"),
        lambda draft: BudgetTree(draft, (1, 1, 1), "distinct", 64),
    ),
    ids=("several", "independent", "distinct", "budget"),
)
def test_a_tree_of_only_children_is_the_draft_proposer_number_by_number(make):
    draft = model(pair("random", 6, 4, 11)[1], 4)
    assert are_same(propose_tree(make(draft)), propose_tree(DraftModel(draft, 3)))


def test_distinct_siblings_are_distinct_and_each_distribution_is_q_without_those_before_it():
    draft = model(pair("random", 7, 4, 11)[1], 4)
    block = propose_tree(FixedTree(draft, (3, 2), "distinct"))
    for index, parents in enumerate(block.parents):
        for parent in {*parents}:
            path = () if parent == ROOT else (block.tokens[index][parent],)
            left = draft.compute_probs((*PROMPT, *path)).clone()
            for node in find_children(parents, parent):
                assert torch.allclose(block.q[index][node], left / left.sum(), atol=1e-15)
                left[block.tokens[index][node]] = 0.0


def test_a_distribution_of_two_tokens_has_two_distinct_children_however_many_are_asked_for():
    draft = model(lambda ids: (0.5, 0.0, 0.5), 3)
    for proposer in (FixedTree(draft, (3,), "distinct"), BudgetTree(draft, (3,), "distinct", 9), FixedTree(draft, (3,), "top")):
        assert all(sorted(tokens) == [0, 2] for tokens in propose_tree(proposer).tokens)


@pytest.mark.parametrize("siblings", ("independent", "several"))
def test_nothing_grows_below_a_later_twin(siblings):
    """Once the first of two equal siblings is rejected, the residual has no mass on their token: the second is never accepted."""
    draft, twins = model(lambda ids: (0.7, 0.3), 2), 0
    proposer = SeveralChains(draft, 3, 2) if siblings == "several" else FixedTree(draft, (3, 1), "independent")
    block = propose_tree(proposer)
    for tokens, parents in zip(block.tokens, block.parents, strict=True):
        for node, parent in enumerate(parents):
            if any(tokens[other] == tokens[node] for other in find_children(parents, parent) if other < node):
                twins += 1
                assert not find_children(parents, node)
    assert twins > 30


def test_a_tree_without_chance_holds_the_likeliest_tokens_for_certain():
    draft = model(lambda ids: (0.1, 0.5, 0.4), 3)
    block = propose_tree(FixedTree(draft, (2, 1), "top"), [Prefix(PROMPT, 0, 9)])
    assert block.tokens == ((1, 2, 1, 1),) and block.parents == ((ROOT, ROOT, 0, 1),) and block.u_draft == ((None,) * 4,)
    assert block.q[0].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    "probs", ((1, 4, 2, 3), (2, 2, 2, 2), (1, 3, 1, 3), (0, 2, 0, 2), (0, 0, 4, 0), (4, 3, 3, 0), (3, 3, 4, 3)), ids=str
)
@pytest.mark.parametrize("count", range(1, 6))
def test_of_equally_likely_tokens_the_smaller_comes_first_and_none_is_impossible(probs, count):
    wanted = sorted((-mass, token) for token, mass in enumerate(probs) if mass)
    assert find_most_likely(torch.tensor(probs, dtype=torch.float64) / sum(probs), count) == [
        token for _, token in wanted[:count]
    ]


def test_no_address_is_met_twice_in_a_long_run():
    for name in CASES:
        target, proposer = build_case_world(name, 11)
        randomness = RecordingRandomness(PhiloxRandomness(4))
        list(decode(target, proposer, TokenRule(), randomness, Settings(max_new_tokens=30), PROMPT))
        assert not randomness.reused, name
