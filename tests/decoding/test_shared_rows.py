"""Many rows of one step share a text, and with it distributions: what is computed once for all of them is what each would get by itself."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from specviz.decoding.engine import step
from specviz.models.cache.decoder import CachedModel
from specviz.models.memoized import MemoizedModel
from specviz.proposers.copied import CopiedTokens
from specviz.proposers.trees.growth import TreeGrowth, assemble_tree, draw_children, find_places
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification import draw as drawing
from specviz.verification import k_sequential
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree
from specviz.verification.draw import draw_tokens, stack_rows
from specviz.verification.k_sequential import SequentialRule, compute_least_rho
from tests.helpers.toy_tables import RecordingRandomness, Siblings, model, pair
from tests.models.test_cache import build_network

ROWS = [Prefix((1, 2), 0, 9, number) for number in range(5)]


def draw_distributions(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# Draws ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocabulary", (1, 2, 7, 8, 4099))
def test_a_ragged_batch_draws_what_each_number_draws_from_its_own_distribution(vocabulary):
    """Random numbers on the edges between tokens too, tokens without mass, and a distribution from which few numbers draw."""
    probs = draw_distributions(2, 5, vocabulary) * (draw_distributions(3, 5, vocabulary) > 0.3)
    probs[:, vocabulary // 2] += 0.1
    rows = torch.tensor([0] * 40 + [1] * 3 + [3] * 200 + [4])
    u = draw_distributions(4, len(rows))
    edges = (probs.cumsum(-1) / probs.sum(-1, keepdim=True))[rows]
    u[::3] = edges[torch.arange(len(rows)), torch.arange(len(rows)) % vocabulary][::3].clamp(max=1.0 - 2.0**-53)
    alone = [int(drawing.draw_many(probs[row], one)) for row, one in zip(rows.tolist(), u[:, None], strict=True)]
    assert drawing.draw_in_rows(probs, rows, u).tolist() == alone
    only = rows == 3
    assert drawing.draw_in_rows(probs[3:4], torch.zeros(200, dtype=torch.int64), u[only]).tolist() == [
        token for token, row in zip(alone, rows.tolist(), strict=True) if row == 3
    ]


@pytest.mark.parametrize("vocabulary", (1, 7, 4096, 4099))
def test_a_distribution_that_is_expanded_is_summed_up_once_and_draws_as_its_copies_do(monkeypatch, vocabulary):
    """Random numbers on every edge between two tokens and beside it, where one bit more or less would draw another token."""
    probs, summed, inner = draw_distributions(1, vocabulary), [], drawing.draw_many
    edges = probs.cumsum(-1) / probs.sum()
    randomness = (
        torch.cat((edges, edges * (1 - 2**-53), edges * (1 + 2**-52), torch.zeros(1))).clamp(max=1 - 2**-53)[-400:].double()
    )
    apart = draw_tokens(probs.repeat(len(randomness), 1), randomness)
    monkeypatch.setattr(drawing, "draw_many", lambda probs, u: summed.append(probs.shape) or inner(probs, u))
    assert torch.equal(draw_tokens(probs.expand(len(randomness), -1), randomness), apart) and summed == [(vocabulary,)]
    assert torch.equal(
        draw_tokens(probs.expand(2, len(randomness) // 2, -1), randomness[: len(randomness) // 2 * 2].view(2, -1)).view(-1),
        apart[: len(randomness) // 2 * 2],
    )


def test_rows_of_one_array_are_expanded_and_those_of_equal_ones_are_copied():
    whole = draw_distributions(2, 3, 6)
    assert stack_rows([whole[1], whole[1]]).stride() == (0, 1) and stack_rows([whole[1]] * 2).data_ptr() == whole[1].data_ptr()
    for some in (
        [whole[0], whole[1]],
        [whole[0], whole[0].clone()],
        [whole[0, ::2], whole[0, :3]],
        [whole[1], whole[1], whole[2]],
    ):
        rows = stack_rows(some)
        assert rows.stride(0) > 0 and torch.equal(rows, torch.stack(some))


# Distributions --------------------------------------------------------------------------------------------------------


def test_rows_that_ask_for_the_same_get_one_read_only_array():
    remembered = MemoizedModel(CachedModel(build_network("Llama"), Settings()))
    chain = DraftTree(((3, 4),) * 5, ((-1, 0),) * 5, (None,) * 5, ((None,) * 2,) * 5, "chain")
    for block in (build_empty_tree(5), chain):
        found = remembered.compute_distributions(ROWS, block)
        alone = remembered.compute_distributions([*ROWS[:4], Prefix((2, 1), 0, 9)], block)  # now the last row is another
        assert found.stride(0) == 0 and alone.stride(0) > 0
        assert torch.equal(found[:4], alone[:4]) and not torch.equal(found[4], alone[4])
        with pytest.raises(RuntimeError):
            found.clamp_(min=0.5)


def test_writing_to_the_distributions_of_one_row_changes_nothing_that_is_remembered():
    remembered = MemoizedModel(CachedModel(build_network("Llama"), Settings()))
    before = remembered.compute_distributions(ROWS[:1], build_empty_tree(1)).clone()
    remembered.compute_distributions(ROWS[:1], build_empty_tree(1)).zero_()
    assert torch.equal(remembered.compute_distributions(ROWS[:1], build_empty_tree(1)), before) and float(
        before.sum()
    ) == pytest.approx(1)


# Draft tokens -------------------------------------------------------------------------------------------------------------------


class Asked:
    """A language model that records what it was asked for."""

    context = None

    def __init__(self, inner):
        self.inner, self.vocabulary, self.blocks = inner, inner.vocabulary, []

    def compute_distributions(self, rows, block):
        self.blocks.append(block)
        return self.inner.compute_distributions(rows, block)


def test_a_language_model_is_given_no_distributions_and_the_rule_is():
    trees, draft = [TreeGrowth(row, 2) for row in ROWS], Asked(model(pair("random", 3, 4, 9)[1], 4))
    ends = [(tree, ROOT) for tree in trees]
    for level in range(2):
        places = find_places(draft, ends)
        ends = [
            (tree, node) for (tree, _, _), node in zip(places, draw_children(places, PhiloxRandomness(1), level), strict=True)
        ]
    given = assemble_tree(trees, "tree")
    assert [block.q for block in draft.blocks] == [(None,) * 5] * 2
    assert [block.tokens for block in draft.blocks] == [((),) * 5, tuple(tokens[:1] for tokens in given.tokens)]
    for tree, q in zip(trees, given.q, strict=True):
        assert torch.equal(q, torch.stack(tree.q)) and q.shape == (2, 4)


def test_numbers_of_one_node_are_taken_together_and_each_node_has_its_own():
    """Trees of different sizes, one of them named three times: each number is the one at its own address."""
    randomness = RecordingRandomness(PhiloxRandomness(8))
    trees = [TreeGrowth(row, 2) for row in ROWS]
    probs = draw_distributions(5, 6)
    trees[3].add(ROOT, 0, probs, 0.5)
    named = [trees[0], trees[3], trees[1], trees[0], trees[2], trees[0]]
    nodes = draw_children([(tree, ROOT, probs) for tree in named], randomness, 0)
    assert nodes == [0, 1, 0, 1, 0, 2] and not randomness.reused
    for tree, node in zip(named, nodes, strict=True):
        alone = PhiloxRandomness(8).take(Purpose.DRAFT, [tree.row], node, 0)
        assert tree.uniforms[node] == alone[0] and tree.tokens[node] == int(draw_tokens(probs, torch.from_numpy(alone)[0]))
    asked = []

    class Together(PhiloxRandomness):
        def take(self, purpose, rows, node, depth):
            asked.append((node, [row.draw for row in rows]))
            return np.zeros(len(rows))

    fresh = [TreeGrowth(row, 2) for row in ROWS]
    draw_children([(tree, ROOT, probs) for tree in fresh for _ in range(2)], Together(1), 0)
    assert asked == [(0, [0, 1, 2, 3, 4]), (1, [0, 1, 2, 3, 4])]


# k-sequential selection ----------------------------------------------------------------------------------------------------


def test_each_pair_of_distributions_keeps_its_own_rho_also_where_one_number_does_not_tell_them_apart():
    """Pairs with equal p . q, looked up alternately, at two k: the remembered rho is never another pair's."""
    p = torch.tensor([0.5, 0.375, 0.125, 0.0], dtype=torch.float64)
    pairs = [(p, torch.tensor(q, dtype=torch.float64)) for q in ([0.5, 0.25, 0.25, 0.0], [0.375, 0.5, 0.0, 0.125])]
    pairs += [(probs, q) for probs in map(torch.stack, permutations(p)) for _, q in pairs]
    assert len({float(p @ q) for p, q in pairs}) < len(pairs) / 2
    rule = SequentialRule()
    for _ in range(2):
        for p, q in pairs:
            for k in (2, 3):
                assert rule.compute_rho(p, q, k) == compute_least_rho(p, q, k)
                assert rule.compute_rho(p.clone(), q.clone(), k) == compute_least_rho(p, q, k)


def test_many_pairs_are_computed_once_each_within_the_memory_bound(monkeypatch):
    asked, inner = [], k_sequential.compute_least_rho
    monkeypatch.setattr(k_sequential, "compute_least_rho", lambda p, q, k: asked.append(k) or inner(p, q, k))
    pairs = [(draw_distributions(seed, 40).softmax(-1), draw_distributions(100 + seed, 40).softmax(-1)) for seed in range(20)]
    rule = SequentialRule()
    for _ in range(3):
        for p, q in pairs:
            rule.compute_rho(p, q, 2)
    assert len(asked) == 20
    monkeypatch.setattr(k_sequential, "MEMORY_MAX", 5 * 16 * 40)
    short = SequentialRule()
    for p, q in [*pairs, *reversed(pairs[-5:])]:
        short.compute_rho(p, q, 2)
        assert len(short._known) <= 5
    assert len(asked) == 40, "the latest five are still known"


def test_what_is_remembered_is_a_copy():
    """Distributions are parts of larger arrays: kept as they are, a pair would hold a whole round's; and a caller may write to his own."""
    rule, (p, q) = SequentialRule(), (draw_distributions(1, 6).softmax(-1), draw_distributions(2, 6).softmax(-1))
    rule.compute_rho(p, q, 2)
    (key,) = rule._known
    held = [tensor.data_ptr() for tensor in rule._known[key][:2]]
    assert p.data_ptr() not in held and q.data_ptr() not in held


def test_with_an_empty_residual_the_last_sibling_is_accepted_whatever_its_u():
    """Equal distributions: a rejection has probability 0 and can only come from rounding. Here every random number rejects."""

    class Refusing(SequentialRule):
        def accepts(self, u, p, q):
            return False

    same = model(pair("equal", 4, 3, 7)[0], 3)
    for round_ in step(ROWS, same, Siblings(same, (2,)), Refusing(), PhiloxRandomness(2)):
        assert round_.accepted_path == (1,) and round_.ending.kind == "bonus"
        assert [one.accepted for one in round_.proposals] == [False, True]


# Copied text -----------------------------------------------------------------------------------------------------------------


def test_rows_with_one_text_and_as_many_remaining_tokens_are_looked_up_once():
    asked = []
    copied = CopiedTokens("copied", lambda ids, count: asked.append((ids, count)) or [sum(ids) % 5] * count, 2, 5)
    rows = [
        Prefix((1, 2), 0, 9, 0),
        Prefix((1, 2), 0, 2, 1),
        Prefix((1, 2), 0, 9, 2),
        Prefix((3, 4), 0, 9, 3),
        Prefix((1, 2), 0, 1, 4),
    ]
    block = copied.propose(rows, PhiloxRandomness(0))
    assert sorted(asked) == [((1, 2), 1), ((1, 2), 2), ((3, 4), 2)]
    assert block.tokens == ((3, 3), (3,), (3, 3), (2, 2), ())
