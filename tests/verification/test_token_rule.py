"""'Theorem 3.8 ... the output of Algorithm 1 is distributed as the target' is proved for the algorithm in test_oracle.py.
Here: the package's own ``step`` does what that algorithm does.

First on fractions, with ``==``: masses are multiples of 1/D, random numbers run over midpoints of a grid whose cell count is a
multiple of every denominator that a comparison can have. No midpoint meets a tie and none lies nearer to one than half a
cell, so rounding cannot matter, and counting cells gives probabilities as fractions. Then in float64 on tables with other
masses and with warpers, by walking each interval on which the outcome is constant.
"""

import random
from fractions import Fraction
from math import lcm

import pytest
import torch

from specviz.decoding.engine import step, truncate_outcome
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import Prefix, Purpose
from specviz.settings import Settings
from specviz.trace import Decision, Ending, Outcome
from specviz.verification.draft_tree import DraftTree
from specviz.verification.token import TokenRule, accepts, compute_acceptance_probability
from tests.helpers.toy_tables import (
    DRAFTS,
    LAST_PLACE,
    FixedTree,
    ScriptedRandomness,
    Siblings,
    World,
    build_common_grid,
    build_grid,
    build_one_hot,
    draw_distribution,
    enumerate_leaves,
    enumerate_round,
    list_interval_branches,
    model,
    pair,
    remember,
)
from tests.oracle.token_rule import Algorithm1, decoder_distribution, target_distribution

V = 3
REMAINING = 50  # remaining tokens, more than any test here writes: the length cap has tests of its own


def build_chain_world(kind: str, seed: int, parts: int, gamma: int) -> tuple[World, Algorithm1]:
    p, q = pair(kind, seed, V, parts)
    world = World(model(p, V), DraftModel(model(q, V), gamma))
    return world, Algorithm1(p, lambda ids, sibling: q(ids), (1,) * gamma)


def count_outcomes(world: World, branches):
    """The production round's distribution after a prefix, each prefix enumerated once."""
    return remember(lambda ids: enumerate_round(world, Prefix(ids, 0, REMAINING), branches))


# On fractions ----------------------------------------------------------------------------------------------------------


SIZES = [(kind, gamma, parts) for kind in DRAFTS for gamma, parts in ((1, 3), (1, 4), (2, 2), (3, 2))]
ROUNDS = [size for size in SIZES if size[0] != "uniform" or size[2] == V]  # a uniform distribution has V parts
TEXTS = [(*size, 3) for size in ROUNDS if size[1:] in ((1, 3), (2, 2))]


@pytest.mark.parametrize(("kind", "gamma", "parts"), [*ROUNDS, ("random", 2, 3), ("uniform", 2, 3)])
def test_production_round_has_the_distribution_of_the_papers_round(kind, gamma, parts):
    world, algorithm = build_chain_world(kind, gamma + parts, parts, gamma)
    assert enumerate_round(world, Prefix((), 0, REMAINING), build_common_grid(parts)) == algorithm.round(())


@pytest.mark.parametrize(("kind", "gamma", "parts", "length"), [*TEXTS, ("random", 1, 4, 2), ("random", 3, 2, 2)])
def test_production_text_has_exactly_the_targets_distribution(kind, gamma, parts, length):
    """Two and three tokens, several rounds, distributions that differ with every prefix: equality of fractions."""
    world, algorithm = build_chain_world(kind, 7, parts, gamma)
    assert decoder_distribution(count_outcomes(world, build_common_grid(parts)), length) == target_distribution(
        algorithm.p, length
    )


@pytest.mark.parametrize("branching", ((2,), (3,), (2, 1)))
def test_production_tree_round_has_the_distribution_of_the_papers_round(branching):
    """Independent siblings. Halves are closed under the residual: max(0, p - q), rescaled, has halves again."""
    for seed in range(2):
        p, q = pair("random", seed, V, 2)
        world = World(model(p, V), Siblings(model(q, V), branching))
        algorithm = Algorithm1(p, lambda ids, sibling, q=q: q(ids), branching)
        assert enumerate_round(world, Prefix((), 0, REMAINING), build_grid(2, 2)) == algorithm.round(())


def test_production_tree_text_has_exactly_the_targets_distribution():
    p, q = pair("random", 0, V, 2)
    world = World(model(p, V), Siblings(model(q, V), (2, 1)))
    assert decoder_distribution(count_outcomes(world, build_grid(2, 2)), 2) == target_distribution(p, 2)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("parts", (2, 3))
def test_greedy_tree_of_two_levels_writes_exactly_the_target(parts):
    """Draft tokens that are not drawn: each has a one-hot distribution, and the text has exactly the target's distribution."""

    def draft_token(ids, sibling):
        return (len(ids) + sibling + sum(ids)) % V

    p, _ = pair("random", 3, V, parts)
    world = World(model(p, V), FixedTree(draft_token, (2, 2), V))
    algorithm = Algorithm1(p, lambda ids, sibling: build_one_hot(draft_token(ids, sibling), V), (2, 2))
    cells = build_grid(parts, lcm(*range(1, parts + 1)))
    assert enumerate_round(world, Prefix((), 0, REMAINING), cells) == algorithm.round(())
    assert decoder_distribution(count_outcomes(world, cells), 2) == target_distribution(p, 2)


@pytest.mark.parametrize("gamma", (0, 1, 2))
def test_stopping_and_length_cap_keep_exactly_the_targets_distribution(gamma):
    """Texts end at token 2 or after three tokens; the remaining tokens shrink with the text, as in ``decode``."""
    p, q = pair("random", 11, V, 3 if gamma < 2 else 2)
    eos_token_ids = frozenset({2})
    proposer = DraftModel(model(q, V), gamma) if gamma else NoDraft()
    world = World(model(p, V), proposer, eos_token_ids=eos_token_ids)
    assert enumerate_texts(world, build_common_grid(3 if gamma < 2 else 2), 3) == target_distribution(p, 3, eos_token_ids)


def enumerate_texts(world: World, branches, length: int, ids: tuple[int, ...] = ()) -> dict:
    """Distribution of complete texts, each round with the tokens that remain."""
    result: dict = {}
    for text, mass in enumerate_round(world, Prefix(ids, len(ids), length - len(ids)), branches).items():
        assert 1 <= len(text) <= length - len(ids) and not world.eos_token_ids & set(text[:-1])
        done = text[-1] in world.eos_token_ids or len(ids) + len(text) == length
        for rest, more in ({(): 1} if done else enumerate_texts(world, branches, length, ids + text)).items():
            result[text + rest] = result.get(text + rest, 0) + mass * more
    return result


@pytest.mark.skipif(LAST_PLACE is not None, reason="its random numbers lie on the edges of its tables, to the last bit")
def test_dyadic_distributions_and_uniforms_give_the_papers_tokens_one_by_one():
    """Lockstep: p, q in eighths, random numbers in 64ths, so float64 is exact even on ties; each row against Algorithm 1 by hand."""
    for seed in range(6):
        p, q = pair("random", seed, V, 8)
        scripts = [draw_script(seed, row) for row in range(200)]
        randomness = ScriptedRandomness(scripts)
        rows = [Prefix((), 0, REMAINING, number) for number in range(len(scripts))]
        rounds = step(rows, model(p, V), DraftModel(model(q, V), 2), TokenRule(), randomness)
        for script, round_ in zip(scripts, rounds, strict=True):
            assert round_.committed == run_by_hand(p, q, 2, {(kind.name, node): u for (kind, node), u in script.items()})


def draw_script(seed: int, row: int) -> dict:
    """Random numbers of one round, in 64ths, chosen at random; u = 0 is among them."""
    dice = random.Random(repr((seed, row)))
    return {(purpose, node): dice.randrange(64) / 64 for purpose in Purpose for node in range(4)}


def run_by_hand(p, q, gamma: int, randomness: dict) -> tuple[int, ...]:
    """Algorithm 1 with given random numbers, on fractions."""

    def inverse(probs, u):
        below = Fraction(0)
        for token, mass in enumerate(probs):
            below += mass
            if below > Fraction(u):
                return token
        raise AssertionError

    drafted: tuple[int, ...] = ()
    for node in range(gamma):
        drafted += (inverse(q(drafted), randomness["DRAFT", node]),)
    for node, token in enumerate(drafted):
        before = drafted[:node]
        if not Fraction(randomness["ACCEPT", node]) * q(before)[token] < p(before)[token]:
            left = [max(Fraction(0), a - b) for a, b in zip(p(before), q(before), strict=True)]
            return (*before, inverse([mass / sum(left) for mass in left], randomness["RESIDUAL", node]))
    return (*drafted, inverse(p(drafted), randomness["BONUS", gamma]))


# In float64 ------------------------------------------------------------------------------------------------------------

WARPERS = (
    {},
    {"temperature": 0.7},
    {"temperature": 0.0},
    {"top_k": 2},
    {"top_p": 0.8},
    {"min_p": 0.3},
    {"temperature": 0.7, "top_k": 2, "top_p": 0.9},
    {"temperature": 1.5, "top_k": 2, "min_p": 0.2},
    {"temperature": 0.7, "top_k": 2, "top_p": 0.9, "min_p": 0.1},
)


def build_dense_tables(seed: int, vocabulary: int):
    """Distributions with 1000 parts: masses that float64 cannot hold exactly."""
    return [remember(lambda ids, name=name: draw_distribution((name, seed, ids), vocabulary, 1000)) for name in "pq"]


def build_float_world(seed: int, gamma: int, warper: dict, vocabulary: int = V) -> World:
    settings = Settings(**warper)
    p, q = build_dense_tables(seed, vocabulary)
    return World(model(p, vocabulary, settings), DraftModel(model(q, vocabulary, settings), gamma))


def find_worst_difference(one: dict, other: dict) -> float:
    return max(abs(one.get(text, 0) - other.get(text, 0)) for text in {*one, *other})


def list_warped_probs(world: World):
    return lambda ids: tuple(world.target.compute_probs(ids).tolist())


@pytest.mark.parametrize("warper", WARPERS, ids=str)
@pytest.mark.parametrize("gamma", (1, 2))
def test_float64_distribution_is_the_warped_targets_to_1e_12(gamma, warper):
    """Every warper; the target's distribution is ``warp`` of its logits, the draft's is warped alike."""
    world = build_float_world(1, gamma, warper)
    assert (
        find_worst_difference(
            decoder_distribution(count_outcomes(world, list_interval_branches), 2),
            target_distribution(list_warped_probs(world), 2),
        )
        < 1e-12
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("gamma", (3, 4))
def test_float64_distribution_is_the_targets_to_1e_12_for_long_blocks(gamma):
    world = build_float_world(5, gamma, {"temperature": 0.7})
    assert (
        find_worst_difference(
            decoder_distribution(count_outcomes(world, list_interval_branches), 2),
            target_distribution(list_warped_probs(world), 2),
        )
        < 1e-12
    )


@pytest.mark.parametrize("branching", ((3,), (2, 1)))
def test_float64_distribution_of_trees_is_the_targets_to_1e_12(branching):
    p, q = build_dense_tables(6, 3)
    world = World(model(p, 3), Siblings(model(q, 3), branching))
    got = enumerate_round(world, Prefix((), 0, REMAINING), list_interval_branches)
    first = {}
    for text, mass in got.items():
        first[text[:1]] = first.get(text[:1], 0) + mass
    assert find_worst_difference(first, target_distribution(list_warped_probs(world), 1)) < 1e-12
    expected = Algorithm1(p, lambda ids, sibling: q(ids), branching).round(())
    assert find_worst_difference(got, expected) < 1e-12


@pytest.mark.parametrize("warper", ({}, {"temperature": 0.7, "top_k": 2}), ids=str)
@pytest.mark.parametrize("gamma", (1, 2, 3, 4))
def test_float64_distribution_of_whole_texts_keeps_stopping_and_cap(gamma, warper):
    """Two stop tokens, cap 3: the joint distribution of text and stopping time."""
    world = build_float_world(8, gamma, warper)
    world = World(world.target, world.proposer, eos_token_ids=frozenset({0, 2}))
    expected = target_distribution(list_warped_probs(world), 3, world.eos_token_ids)
    assert find_worst_difference(enumerate_texts(world, list_interval_branches, 3), expected) < 1e-12


def test_thresholds_and_weights_of_the_walk_add_up():
    """The walk itself is complete: the weights of all outcomes sum to 1."""
    world = build_float_world(9, 2, {"top_p": 0.8})
    assert sum(
        weight for _, weight in enumerate_leaves(world, Prefix((), 0, REMAINING), list_interval_branches)
    ) == pytest.approx(1, abs=1e-12)


def test_equal_distributions_up_to_rounding_accept_every_token():
    """p = q in the reals, different in the last bit: a rejection has probability 0, nothing is NaN, the token is accepted."""
    q = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    p = torch.nextafter(q, torch.zeros(3, dtype=torch.float64))  # below q everywhere
    target, draft = model(lambda ids: p.tolist(), 3), model(lambda ids: q.tolist(), 3)
    for u in (0.0, 0.5, 1 - 2**-53):
        script = {(purpose, node): u for purpose in Purpose for node in range(3)}
        (round_,) = step([Prefix((), 0, 9)], target, DraftModel(draft, 2), TokenRule(), ScriptedRandomness([script]))
        assert len(round_.accepted_path) == 2 and round_.ending.kind == "bonus"


def test_the_cut_does_not_change_an_outcome_that_fits():
    decisions = tuple(Decision(token, token - 1, "x", 1.0, 1.0, None, 0.5, 1.0, True) for token in (0, 1))
    outcome = Outcome(decisions, (0, 1), Ending("bonus", 2, 0.5))
    assert truncate_outcome(outcome, Prefix((), 0, 3), frozenset()) is outcome
    assert truncate_outcome(outcome, Prefix((), 0, 3), frozenset({2})) is outcome
    assert truncate_outcome(outcome, Prefix((), 0, 2), frozenset()).ending == Ending("length", None, None)
    assert truncate_outcome(outcome, Prefix((), 0, 2), frozenset()).committed == (0, 1)
    assert truncate_outcome(outcome, Prefix((), 0, 3), frozenset({0})).committed == (0,)
    assert truncate_outcome(outcome, Prefix((), 0, 3), frozenset({0})).ending == Ending("eos", None, None)


def test_a_proposal_of_another_row_is_never_read():
    """Two rows with different prefixes, trees of different sizes, one batch: each row gives what it gives by itself."""
    p, q = pair("random", 4, V, 4)
    target = model(p, V)
    randomness = ScriptedRandomness([draw_script(1, 0), draw_script(1, 1)])
    proposer = Mixed(Siblings(model(q, V), (2, 1)), DraftModel(model(q, V), 3))
    rows = [Prefix((0,), 0, REMAINING, 0), Prefix((1, 2), 0, REMAINING, 1)]
    together = step(rows, target, proposer, TokenRule(), randomness)
    alone = [step([row], target, proposer, TokenRule(), randomness)[0] for row in rows]
    assert together == alone


class Mixed:
    """A tree for draw 0, a chain for the others."""

    name = "mixed"

    def __init__(self, tree: Siblings, chain: DraftModel):
        self.tree, self.chain = tree, chain

    def propose(self, rows, randomness) -> DraftTree:
        blocks = [(self.tree if row.draw == 0 else self.chain).propose([row], randomness) for row in rows]
        fields = (tuple(getattr(block, name)[0] for block in blocks) for name in ("tokens", "parents", "q", "u_draft"))
        return DraftTree(*fields, self.name)


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("q", [0.0, 0.25, 1.0])
def test_the_recorded_threshold_is_the_share_of_u_that_accepts_also_where_a_mistake_reports_that_q_is_0(p, q):
    """Of u = 0, 1/8, ..., 7/8. Thresholds of these p and q are multiples of 1/8."""
    accepted = [accepts(k / 8, p, q) for k in range(8)]
    assert sum(accepted) / 8 == compute_acceptance_probability(p, q)
