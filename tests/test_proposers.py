"""'Exactness comes from the rule, not from the proposer': every proposer of the gallery under every exact rule that can judge it has
the target's law, enumerated over all outcomes of the production step (Leviathan et al. 2023, A.1; Miao et al. 2024; Sun et al. 2024).
Then what each proposer says of itself, on tables. Nothing here is random but the tables.
"""

import pytest
import torch

from specviz.coins import PhiloxCoins, Prefix, Purpose
from specviz.engine import decode, step
from specviz.errors import SettingsError
from specviz.evidence.enumerate import output_law, target_law, tokens_per_pass, total_variation
from specviz.proposers import lengths
from specviz.proposers.budget import BudgetTree, RankedTree
from specviz.proposers.draft import DraftModel
from specviz.proposers.several import SeveralDrafts
from specviz.proposers.tree import Tree
from specviz.settings import Settings
from specviz.verification.block import ROOT, children, depth
from specviz.verification.gallery import rule_of
from specviz.verification.rules import TokenRule
from tests.proposer_cases import CASES, SAME_LAW, TREES, rules, world
from tests.tables import RecordingCoins, model, pair

PROMPT = (0, 1)
JUDGED = [(name, rule) for name in CASES for rule in rules(name)]
LONG = ("heuristic", "gain", "uniform, heuristic")  # five tokens: later rounds differ from the first
BINARY = {*SAME_LAW, *LONG}  # many draws of three tokens take long to walk; test_several_drafts.py walks such siblings


@pytest.fixture(autouse=True)
def thresholds_that_three_tokens_meet(monkeypatch):
    """The entropy of three tokens never gets near the bounds that are right for thousands."""
    monkeypatch.setattr(lengths, "LEAST", 0.6)
    monkeypatch.setattr(lengths, "WORTH", 0.5)


def apart(name: str, seed: int, vocabulary: int, rule: str, length: int, **warper) -> float:
    target, proposer = world(name, seed, vocabulary, **warper)
    written = output_law(target, proposer, rule_of(Settings(rule=rule)), PROMPT, length)
    return total_variation(written, target_law(target, PROMPT, length))


@pytest.mark.parametrize(("name", "rule"), JUDGED)
def test_texts_have_the_targets_law(name, rule):
    assert apart(name, 1, 2 if name in BINARY else 3, rule, 5 if name in LONG else 3) < 1e-12


@pytest.mark.parametrize("warper", ({"temperature": 0.0}, {"temperature": 0.8, "top_p": 0.8}), ids=str)
@pytest.mark.parametrize("name", CASES)
def test_under_every_temperature_and_cut_texts_have_the_targets_law(name, warper):
    assert apart(name, 2, 2 if name in TREES else 3, "token", 3, **warper) < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_text_and_stopping_time_have_the_targets_joint_law(name):
    target, proposer = world(name, 3, 2 if name in TREES else 3)
    stops = frozenset({1})
    written = output_law(target, proposer, TokenRule(), PROMPT, 3, stops)
    assert total_variation(written, target_law(target, PROMPT, 3, stops)) < 1e-12


@pytest.mark.parametrize("name", TREES)
def test_trees_are_refused_by_the_rule_for_chains_with_a_sentence(name):
    target, proposer = world(name, 1)
    with pytest.raises(SettingsError, match="rule must be token"):
        step([Prefix(PROMPT, 0, 9)], target, proposer, rule_of(Settings(rule="block")), PhiloxCoins(0))


# What every proposer promises -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_no_more_levels_than_the_room_leaves(name):
    _, proposer = world(name, 4, gamma=8)
    for room in (1, 2, 3, 9):
        block = proposer.propose([Prefix(PROMPT, 0, room, draw) for draw in range(20)], PhiloxCoins(1))
        for parents in block.parents:
            assert all(depth(parents, node) + 1 <= room - 1 for node in range(len(parents)))


@pytest.mark.parametrize("name", CASES)
def test_parents_stand_before_children_and_every_array_has_its_row(name):
    _, proposer = world(name, 5)
    block = proposer.propose([Prefix((0, 1, 2, 0, 1), 3, 9, draw) for draw in range(20)], PhiloxCoins(2))
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
        target, proposer = world(name, 1)
        found[name] = tokens_per_pass(target, proposer, TokenRule(), PROMPT, 9)
    assert found["oracle"] == pytest.approx(3, abs=1e-12) and found["none"] == 1
    assert found["none"] < found["adversarial"] < found["oracle"] > found["draft"]


def block_of(proposer, rows=None, seed: int = 3):
    return proposer.propose(rows or [Prefix(PROMPT, 0, 9, draw) for draw in range(30)], PhiloxCoins(seed))


def same(one, other) -> bool:
    """The same tokens from the same laws with the same numbers, whoever made them."""
    equal = all(torch.equal(a, b) for a, b in zip(one.q, other.q, strict=True))
    return equal and (one.tokens, one.parents, one.u_draft) == (other.tokens, other.parents, other.u_draft)


@pytest.mark.parametrize(
    "make",
    (
        lambda draft: SeveralDrafts(draft, 1, 3),
        lambda draft: Tree(draft, (1, 1, 1), "independent"),
        lambda draft: Tree(draft, (1, 1, 1), "distinct"),
        lambda draft: BudgetTree(draft, (1, 1, 1), "distinct", 64),
    ),
    ids=("several", "independent", "distinct", "budget"),
)
def test_a_tree_of_only_children_is_the_draft_proposer_number_by_number(make):
    draft = model(pair("random", 6, 4, 11)[1], 4)
    assert same(block_of(make(draft)), block_of(DraftModel(draft, 3)))


def test_distinct_siblings_are_distinct_and_each_law_is_q_without_those_before_it():
    draft = model(pair("random", 7, 4, 11)[1], 4)
    block = block_of(Tree(draft, (3, 2), "distinct"))
    for index, parents in enumerate(block.parents):
        for parent in {*parents}:
            path = () if parent == ROOT else (block.tokens[index][parent],)
            left = draft.law((*PROMPT, *path)).clone()
            for node in children(parents, parent):
                assert torch.allclose(block.q[index][node], left / left.sum(), atol=1e-15)
                left[block.tokens[index][node]] = 0.0


def test_a_law_of_two_tokens_has_two_distinct_children_however_many_are_asked_for():
    draft = model(lambda ids: (0.5, 0.0, 0.5), 3)
    for proposer in (Tree(draft, (3,), "distinct"), BudgetTree(draft, (3,), "distinct", 9), Tree(draft, (3,), "top")):
        assert all(sorted(tokens) == [0, 2] for tokens in block_of(proposer).tokens)


@pytest.mark.parametrize("siblings", ("independent", "several"))
def test_nothing_grows_below_a_later_twin(siblings):
    """Once the first of two equal siblings is refused, the residual has no mass on their token: the second is never kept."""
    draft, twins = model(lambda ids: (0.7, 0.3), 2), 0
    proposer = SeveralDrafts(draft, 3, 2) if siblings == "several" else Tree(draft, (3, 1), "independent")
    block = block_of(proposer)
    for tokens, parents in zip(block.tokens, block.parents, strict=True):
        for node, parent in enumerate(parents):
            if any(tokens[other] == tokens[node] for other in children(parents, parent) if other < node):
                twins += 1
                assert not children(parents, node)
    assert twins > 30


def test_a_tree_without_chance_holds_the_likeliest_tokens_for_certain():
    draft = model(lambda ids: (0.1, 0.5, 0.4), 3)
    block = block_of(Tree(draft, (2, 1), "top"), [Prefix(PROMPT, 0, 9)])
    assert block.tokens == ((1, 2, 1, 1),) and block.parents == ((ROOT, ROOT, 0, 1),) and block.u_draft == ((None,) * 4,)
    assert block.q[0].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0]]


# Trees under a budget -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", (1, 2, 3, 5, 8, 39))
def test_re_ranking_keeps_the_nodes_of_highest_joint_confidence(nodes):
    """Against the whole tree of three levels, each path weighed by the draft's own joint probability."""
    for seed in range(5):
        draft = model(pair("random", seed, 3, 11)[1], 3)
        weights: dict[tuple, float] = {}
        for _ in range(3):
            for path in [path for path in [(), *weights] if not any((*path, x) in weights for x in range(3))]:
                weights |= {
                    (*path, x): weights.get(path, 1.0) * m for x, m in enumerate(draft.law((*PROMPT, *path)).tolist()) if m
                }
        block = block_of(RankedTree(draft, (3, 3, 3), nodes), [Prefix(PROMPT, 0, 9)])
        found = {path_of(block, 0, node) for node in range(len(block.tokens[0]))}
        least = sorted(weights.values(), reverse=True)[: len(found)][-1]
        assert len(found) == min(nodes, len(weights)) and all(weights[path] >= least for path in found)


def path_of(block, index: int, node: int) -> tuple[int, ...]:
    parent = block.parents[index][node]
    return (*(() if parent == ROOT else path_of(block, index, parent)), block.tokens[index][node])


@pytest.mark.parametrize("siblings", ("independent", "distinct"))
def test_a_budget_acts_before_each_draw_and_what_is_drawn_stays(siblings):
    """As many numbers are asked for as nodes are handed over, never more nodes than allowed; and luck decides which grow."""
    draft = model(pair("random", 8, 4, 11)[1], 4)
    shapes = set()
    for nodes in (1, 4, 7, 12):
        for draw in range(40):
            coins = RecordingCoins(PhiloxCoins(5))
            block = BudgetTree(draft, (3, 3, 3), siblings, nodes).propose([Prefix(PROMPT, 0, 9, draw)], coins)
            assert [address[0] for address in coins.addresses] == [Purpose.DRAFT] * len(block.tokens[0])
            assert 1 <= len(block.tokens[0]) <= nodes
            shapes |= {block.parents[0]} if nodes == 7 else set()
    assert len(shapes) > 1


@pytest.mark.parametrize("siblings", ("independent", "distinct"))
def test_the_next_node_stands_where_most_joint_confidence_is_expected(siblings):
    """Worked out anew for every draw: the path's share times what a draw is expected to add, a twin counting for nothing."""
    draft = model(pair("random", 9, 4, 11)[1], 4)
    block = block_of(BudgetTree(draft, (3, 3), siblings, 9))
    for index, parents in enumerate(block.parents):
        for node, chosen in enumerate(parents):
            level = depth(parents, node)
            spots = [ROOT] if level == 0 else [n for n in range(node) if depth(parents, n) == level - 1]
            worth = {spot: _worth(draft, block, index, spot, node, siblings) for spot in spots}
            assert worth[chosen] == pytest.approx(max(worth.values()), abs=1e-12)


def _worth(draft, block, index: int, spot: int, node: int, siblings: str) -> float:
    """Expected joint confidence of one more child of ``spot`` before node number ``node`` is drawn; 0 where none may be."""
    path, share = () if spot == ROOT else path_of(block, index, spot), 1.0
    for count, token in enumerate(path):
        share *= float(draft.law((*PROMPT, *path[:count]))[token])
    parents, tokens = block.parents[index], block.tokens[index]
    twin = spot != ROOT and any(tokens[other] == tokens[spot] for other in children(parents, parents[spot]) if other < spot)
    drawn = {tokens[child] for child in children(parents[:node], spot)}
    law = draft.law((*PROMPT, *path)).tolist()
    fresh = [0.0 if x in drawn else mass for x, mass in enumerate(law)]
    if twin or len(children(parents[:node], spot)) == 3 or not any(fresh):
        return 0.0
    drawn_from = law if siblings == "independent" else [mass / sum(fresh) for mass in fresh]
    return share * sum(a * b for a, b in zip(fresh, drawn_from, strict=True))


def test_on_every_level_but_the_last_half_of_what_is_left_is_drawn_at_most():
    draft = model(pair("random", 10, 4, 11)[1], 4)
    for parents in block_of(BudgetTree(draft, (4, 4, 4), "distinct", 8)).parents:
        levels = [sum(depth(parents, node) == level for node in range(len(parents))) for level in range(3)]
        assert levels[0] == 4 and levels[1] <= 2 and sum(levels) == 8


def test_no_address_is_met_twice_in_a_long_run():
    for name in CASES:
        target, proposer = world(name, 11)
        coins = RecordingCoins(PhiloxCoins(4))
        list(decode(target, proposer, TokenRule(), coins, Settings(length=30), PROMPT))
        assert not coins.reused, name
