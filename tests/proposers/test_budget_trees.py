"""Trees within a number of nodes: what is handed over is what was drawn, and it grows where the draft is sure. On tables."""

import pytest

from specviz.proposers.trees.budget import BudgetTree, RankedTree
from specviz.randomness import PhiloxCoins, Prefix, Purpose
from specviz.verification.draft_tree import ROOT, children, depth
from tests.tables import RecordingCoins, model, pair

PROMPT = (0, 1)


def block_of(proposer, rows=None):
    return proposer.propose(rows or [Prefix(PROMPT, 0, 9, draw) for draw in range(30)], PhiloxCoins(3))


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
