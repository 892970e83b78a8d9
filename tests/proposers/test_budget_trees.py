"""Trees within a number of nodes: what is handed over is what was drawn, and it grows where the draft is sure. On tables."""

from itertools import product
from math import prod

import pytest

from specviz.proposers.trees.budget import BudgetTree, RankedTree
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.verification.draft_tree import ROOT, compute_node_depth, find_children
from tests.helpers.toy_tables import RecordingRandomness, model, pair

PROMPT = (0, 1)


def propose_tree(proposer, rows=None):
    return proposer.propose(rows or [Prefix(PROMPT, 0, 9, draw) for draw in range(30)], PhiloxRandomness(3))


@pytest.mark.parametrize("nodes", (1, 2, 3, 5, 8, 39))
def test_re_ranking_keeps_the_nodes_of_highest_joint_confidence(nodes):
    """Against the whole tree of three levels, each path weighed by the draft's own joint probability."""
    for seed in range(5):
        draft = model(pair("random", seed, 3, 11)[1], 3)
        weights: dict[tuple, float] = {}
        for _ in range(3):
            for path in [path for path in [(), *weights] if not any((*path, x) in weights for x in range(3))]:
                weights |= {
                    (*path, x): weights.get(path, 1.0) * m
                    for x, m in enumerate(draft.compute_probs((*PROMPT, *path)).tolist())
                    if m
                }
        block = propose_tree(RankedTree(draft, (3, 3, 3), nodes), [Prefix(PROMPT, 0, 9)])
        found = {list_path(block, 0, node) for node in range(len(block.tokens[0]))}
        least = sorted(weights.values(), reverse=True)[: len(found)][-1]
        assert len(found) == min(nodes, len(weights)) and all(weights[path] >= least for path in found)


def list_path(block, index: int, node: int) -> tuple[int, ...]:
    parent = block.parents[index][node]
    return (*(() if parent == ROOT else list_path(block, index, parent)), block.tokens[index][node])


@pytest.mark.parametrize("siblings", ("independent", "distinct"))
def test_a_budget_acts_before_each_draw_and_what_is_drawn_stays(siblings):
    """As many random numbers are asked for as nodes are handed over, never more nodes than allowed; and what is drawn above
    decides which nodes grow."""
    draft = model(pair("random", 8, 4, 11)[1], 4)
    shapes = set()
    for nodes in (1, 4, 7, 12):
        for draw in range(40):
            randomness = RecordingRandomness(PhiloxRandomness(5))
            block = BudgetTree(draft, (3, 3, 3), siblings, nodes).propose([Prefix(PROMPT, 0, 9, draw)], randomness)
            assert [address[0] for address in randomness.addresses] == [Purpose.DRAFT] * len(block.tokens[0])
            assert 1 <= len(block.tokens[0]) <= nodes
            shapes |= {block.parents[0]} if nodes == 7 else set()
    assert len(shapes) > 1


def test_the_next_distinct_node_stands_where_most_joint_confidence_is_expected():
    """Computed anew for every draw: the path's probability times what a draw is expected to add after the draws before it."""
    draft = model(pair("random", 9, 4, 11)[1], 4)
    block = propose_tree(BudgetTree(draft, (3, 3), "distinct", 9))
    for index, parents in enumerate(block.parents):
        for node, chosen in enumerate(parents):
            worth = {spot: _worth(draft, block, index, spot, node) for spot in spots(parents, node)}
            assert worth[chosen] == pytest.approx(max(worth.values()), abs=1e-12)


def spots(parents, node: int) -> list[int]:
    """Where a node could have stood: the nodes of the level above its own."""
    level = compute_node_depth(parents, node)
    return [ROOT] if level == 0 else [n for n in range(node) if compute_node_depth(parents, n) == level - 1]


def compute_path_share(draft, block, index: int, spot: int) -> tuple[tuple[int, ...], float]:
    """Tokens of the path down to a node, and the draft's joint probability of them."""
    path, share = () if spot == ROOT else list_path(block, index, spot), 1.0
    for count, token in enumerate(path):
        share *= float(draft.compute_probs((*PROMPT, *path[:count]))[token])
    return path, share


def _worth(draft, block, index: int, spot: int, node: int) -> float:
    """Expected joint confidence of one more distinct child of ``spot`` before node number ``node`` is drawn; 0 where none may be."""
    path, share = compute_path_share(draft, block, index, spot)
    drawn = find_children(block.parents[index][:node], spot)
    tokens = {block.tokens[index][child] for child in drawn}
    fresh = [0.0 if x in tokens else mass for x, mass in enumerate(draft.compute_probs((*PROMPT, *path)).tolist())]
    return share * sum(mass * mass for mass in fresh) / sum(fresh) if len(drawn) < 3 and any(fresh) else 0.0


def test_numbers_of_independent_siblings_are_those_of_highest_expected_joint_confidence_whatever_is_drawn():
    """Every sibling number c of every node, valued before a draw: the path's probability times the mean of q(x) over draws x that
    are none of c - 1 draws before them, by going through all of those. A later twin of a node grows nothing."""
    draft = model(pair("random", 9, 4, 11)[1], 4)
    block, levels = propose_tree(BudgetTree(draft, (3, 3), "independent", 9)), (5, 4)
    for index, parents in enumerate(block.parents):
        tokens = block.tokens[index]
        first = [
            min(other for other in find_children(parents, parents[n]) if tokens[other] == tokens[n]) for n in range(len(parents))
        ]
        for level in (0, 1):
            here = [n for n in range(len(parents)) if compute_node_depth(parents, n) == level]
            weights = sorted(
                (
                    (_compute_fresh_share(draft, block, index, spot, count), spot)
                    for spot in spots(parents, here[0])
                    if spot == ROOT or first[spot] == spot
                    for count in (1, 2, 3)
                ),
                reverse=True,
            )
            given = [
                _compute_fresh_share(draft, block, index, parents[n], find_children(parents, parents[n]).index(n) + 1)
                for n in here
            ]
            allowed = min(
                levels[0] if level == 0 else 9 - len(find_children(parents, ROOT)), sum(weight > 0 for weight, _ in weights)
            )
            assert len(here) == allowed
            assert given == pytest.approx([weight for weight, _ in weights[:allowed]], abs=1e-12), "the best first, and no others"


def _compute_fresh_share(draft, block, index: int, spot: int, count: int) -> float:
    path, share = compute_path_share(draft, block, index, spot)
    probs = draft.compute_probs((*PROMPT, *path)).tolist()
    mean = 0.0
    for draws in product(range(4), repeat=count):
        if draws[-1] not in draws[:-1]:
            mean += prod(probs[x] for x in draws) * probs[draws[-1]]
    return share * mean


def test_on_every_level_but_the_last_half_of_what_is_left_is_drawn_at_most():
    draft = model(pair("random", 10, 4, 11)[1], 4)
    for parents in propose_tree(BudgetTree(draft, (4, 4, 4), "distinct", 8)).parents:
        levels = [sum(compute_node_depth(parents, node) == level for node in range(len(parents))) for level in range(3)]
        assert levels[0] == 4 and levels[1] <= 2 and sum(levels) == 8
