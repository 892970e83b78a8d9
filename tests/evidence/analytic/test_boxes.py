"""The cuts of the enumerator are known, not drafted: each box of numbers is put to the test by numbers that it did not choose.

A distance that the enumerator states may hang on no seed, on no last bit of the tables, and on no comparison that is made in silence;
and what lies where float64 cannot look is stated, and too much of it is refused.

Chance: points are compared with boxes that hold them, so a right enumeration fails for none of them. A wrong one whose wrong boxes have
the mass m is missed by n points with probability (1 - m)^n: at m = 1e-4, 4.5e-5 for the 100,000 points of the slow tests.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from specviz.decoding.engine import step
from specviz.evidence.analytic.enumeration import (
    ALL,
    MISSED,
    BoxCutter,
    Components,
    EnumerationError,
    Enumerator,
    compute_text_tv,
    enumerate_output,
    enumerate_target,
)
from specviz.evidence.mistakes.components import BestOfDrawnProposer
from specviz.evidence.mistakes.registry import MISTAKES, enumerate_tv, open_tables
from specviz.proposers.adaptive import AdaptiveDraft, EntropyPolicy
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.several_chains import SeveralChains
from specviz.proposers.trees.budget import BudgetTree
from specviz.proposers.trees.fixed import FixedTree
from specviz.randomness import Prefix, Purpose
from specviz.verification.block import BlockRule
from specviz.verification.comparison_log import listen_to_comparisons
from specviz.verification.draw import draw_tokens
from specviz.verification.k_sequential import SequentialRule
from specviz.verification.token import TokenRule
from tests.helpers.chance_bands import SEED
from tests.helpers.toy_tables import draw_distribution, model, move_table, pair

PROMPT, NONE = (0,), frozenset()


def build_step_arguments(make, seed: int = 3):
    """Arguments of ``step`` from tables with a distribution for every prefix, in hundredths."""
    p, q = (model(table, 3) for table in pair("random", seed, 3, 100))
    proposer, rule = make(q)
    return Components(p, proposer, rule)


def open_mutant(name: str):
    mutant = MISTAKES[name]
    return mutant.build(open_tables(*mutant.toy), mutant.settings)


def find_best(width: int, nodes: int):
    """The mutant best-drawn with other numbers of siblings."""
    mutant = MISTAKES["best-drawn"]
    target, draft = open_tables(*mutant.toy)(mutant.settings)
    return Components(target, BestOfDrawnProposer(draft, width, nodes), TokenRule())


DECODERS = {  # name -> (arguments of step, room of the round)
    "chain": (lambda: build_step_arguments(lambda q: (DraftModel(q, 3), TokenRule())), 4),
    "block": (lambda: build_step_arguments(lambda q: (DraftModel(q, 2), BlockRule())), 3),
    "k-seq": (lambda: build_step_arguments(lambda q: (SeveralChains(q, 2, 1), SequentialRule())), 2),
    "distinct": (lambda: build_step_arguments(lambda q: (FixedTree(q, (2, 1), "distinct"), TokenRule())), 3),
    "budget": (lambda: build_step_arguments(lambda q: (BudgetTree(q, (2, 2), "independent", 4), TokenRule())), 3),
    "entropy": (lambda: build_step_arguments(lambda q: (AdaptiveDraft(q, EntropyPolicy(3)), TokenRule())), 4),
    "best-drawn": (lambda: open_mutant("best-drawn"), 2),
    "two of three": (lambda: find_best(3, 2), 2),
    **{
        name: (lambda name=name: open_mutant(name), MISTAKES[name].settings.max_new_tokens)
        for name in ("R6", "R7", "R8", "R20", "R35", "kept-rest")
    },
}


class AnyPoints:
    """Random numbers of n points of the cube: independent numbers, the same ones where an address is asked for again."""

    def __init__(self, n: int, seed: int):
        self.n, self.dice, self.known = n, np.random.default_rng(seed), {}

    def take(self, purpose: Purpose, rows, node: int, depth: int) -> np.ndarray:
        return np.array([self.at((purpose, row.start, node))[row.draw] for row in rows])

    def at(self, address) -> np.ndarray:
        if address not in self.known:
            self.known[address] = self.dice.random(self.n)
        return self.known[address]


def summarize_round(round_) -> tuple:
    return tuple((one.token, one.accepted) for one in round_.proposals), round_.committed, round_.ending.kind


def count_misplaced(made: Components, remaining: int, n: int, seed: int = SEED, batch: int = 5000) -> int:
    """How many of n random points of the cube lie in no box, in two, or in one whose round is another than theirs."""
    row = Prefix(PROMPT, 0, remaining)
    boxes, missed = BoxCutter(made).cut_round(row, {})
    assert missed < MISSED
    wrong = 0
    for first in range(0, n, batch):
        points = AnyPoints(min(batch, n - first), seed + first)
        rows = [Prefix(PROMPT, 0, remaining, draw) for draw in range(points.n)]
        rounds = step(rows, made.target, made.proposer, made.rule, made.randomness(points))
        place = np.full(points.n, -1)
        for number, (_, box) in enumerate(boxes):
            inside = np.all(
                [(low <= points.at(address)) & (points.at(address) < high) for address, (low, high) in box.items()], 0
            )
            wrong += int((inside & (place >= 0)).sum())
            place[inside] = number
        expected = [summarize_round(round_) for round_, _ in boxes]
        wrong += sum(at < 0 or expected[at] != summarize_round(round_) for at, round_ in zip(place, rounds, strict=True))
    return wrong


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("name", DECODERS)
def test_random_points_lie_in_the_box_of_their_own_round(name):
    make, remaining = DECODERS[name]
    assert count_misplaced(make(), remaining, 400) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_a_hundred_thousand_random_points_lie_in_the_box_of_their_own_round(name):
    make, remaining = DECODERS[name]
    assert count_misplaced(make(), remaining, 100_000) == 0


# Nothing hangs on the points that are executed, nor on a last bit ------------------------------------------------------


HEAVY = ("budget", "two of three", "distinct", "entropy", "chain", "kept-rest")


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in DECODERS])
def test_four_seeds_of_the_points_give_one_distribution(name):
    make, remaining = DECODERS[name]
    made, found = make(), []
    for seed in range(4):
        walk = Enumerator(made, seed=seed)
        found.append(walk.enumerate_round(Prefix(PROMPT, 0, remaining)))
    assert max(compute_text_tv(found[0], other) for other in found) < 1e-13


def compute_distance(mutant, tables) -> float:
    return enumerate_tv(mutant.build, open_tables(*tables), mutant.settings)


@pytest.mark.fast_cases(9)
@pytest.mark.parametrize("name", MISTAKES)
def test_tables_moved_by_one_unit_in_the_last_place_give_the_same_distance(name):
    mutant = MISTAKES[name]
    assert compute_distance(mutant, [move_table(table, 1) for table in mutant.toy]) == pytest.approx(mutant.toy_tv, abs=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("name", MISTAKES)
def test_tables_moved_ten_times_by_a_last_bit_give_the_same_distance(name, seed):
    mutant = MISTAKES[name]
    assert compute_distance(mutant, [move_table(table, seed) for table in mutant.toy]) == pytest.approx(mutant.toy_tv, abs=1e-11)


def enumerate_outcomes(p, q, proposer, rule):
    target, draft = model(p, 3), model(q, 3)
    return compute_text_tv(
        enumerate_output(Components(target, proposer(draft), rule), PROMPT, 3), enumerate_target(target, PROMPT, 3)
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_right_decoders_stay_exact_on_moved_tables(seed):
    """p = q among them, where what is left after a refusal is nothing but rounding."""
    decoders = (
        (lambda q: DraftModel(q, 2), TokenRule()),
        (lambda q: DraftModel(q, 2), BlockRule()),
        (lambda q: FixedTree(q, (2, 1), "distinct"), TokenRule()),
        (lambda q: SeveralChains(q, 2, 2), SequentialRule()),
    )
    for kind in ("random", "equal", "disjoint"):
        p, q = (move_table(table, seed) for table in pair(kind, seed, 3, 12))
        for proposer, rule in decoders:
            assert enumerate_outcomes(p, q, proposer, rule) < 1e-11


# Unknown mass is stated -----------------------------------------------------------------------------------------------


def build_thin_table(count: int, mass: float):
    """``count`` tokens of that mass, thinner than what is looked into, and one with the rest."""
    return lambda ids: (*(mass,) * count, 1.0 - count * mass)


def test_mass_too_thin_to_look_into_is_stated():
    walk = Enumerator(Components(model(build_thin_table(3, 5e-15), 4), NoDraft(), TokenRule()))
    assert walk._enumerate_rest(Prefix(PROMPT, 0, 1), {})[1] == pytest.approx(1.5e-14, rel=1e-6)
    assert walk._enumerate_rest(Prefix(PROMPT, 0, 2), {})[1] == pytest.approx(3.0e-14, rel=1e-6)


def test_too_much_of_it_is_refused():
    target = model(build_thin_table(300, 5e-15), 301)
    with pytest.raises(EnumerationError, match=r"1\.5e-12 of the probability"):
        enumerate_output(Components(target, NoDraft(), TokenRule()), PROMPT, 1)


def test_a_token_just_thicker_than_that_is_found():
    probs = enumerate_output(Components(model(build_thin_table(1, 2e-14), 2), NoDraft(), TokenRule()), PROMPT, 1)
    assert probs[0,] == pytest.approx(2e-14, rel=1e-2)


def test_rows_that_share_a_thin_interval_get_numbers_of_their_own():
    """Some hundred float64 numbers lie in it, for a thousand rows: they are looked at in smaller batches."""
    cutter = BoxCutter(Components(model(lambda ids: (0.5, 0.5), 2), NoDraft(), TokenRule()))
    thin = {(Purpose.BONUS, 0, 0): (0.75, 0.75 + 3e-14)}
    seen, others = cutter.execute_boxes(Prefix(PROMPT, 0, 1), [thin] * 1000, {})
    assert [one.round.committed for one in seen] == [(1,)] * 1000 and not others


# Every use of a number is reported, or noticed -------------------------------------------------------------------------


class SilentRule(TokenRule):
    """Keeps a draft token where its number is below .01, and tells nobody."""

    def accepts(self, u, p, q):
        return u < 0.01


class SilentPairRule(TokenRule):
    """Compares in silence the largest of two numbers, neither of which is compared with anything else."""

    def accepts(self, u, p, q):
        return u < 0.1

    def verify(self, rows, block, p, randomness):
        return super().verify(rows, block, p, _Largest(randomness))


class _Largest:
    def __init__(self, randomness):
        self.randomness = randomness

    def take(self, purpose, rows, node, depth):
        here = self.randomness.take(purpose, rows, node, depth)
        return np.maximum(here, self.randomness.take(purpose, rows, node + 7, depth)) if purpose is Purpose.ACCEPT else here


class HalvedRandomness:
    """Random numbers that show half of each number."""

    def __init__(self, randomness):
        self.randomness = randomness

    def take(self, purpose, rows, node, depth):
        return self.randomness.take(purpose, rows, node, depth) / 2


@pytest.mark.parametrize("rule", (SilentRule(), SilentPairRule()), ids=lambda rule: type(rule).__name__)
def test_a_comparison_in_silence_is_noticed(rule):
    made = build_step_arguments(lambda q: (DraftModel(q, 1), rule))
    with pytest.raises(EnumerationError, match="every use of a number must be reported"):
        enumerate_output(made, PROMPT, 2)


def test_a_number_computed_from_another_is_noticed():
    made = build_step_arguments(lambda q: (DraftModel(q, 1), TokenRule()))
    with pytest.raises(EnumerationError, match="numbers or constants, not numbers computed from others"):
        enumerate_output(replace(made, randomness=HalvedRandomness), PROMPT, 2)


def test_a_sibling_that_was_thrown_away_is_cut_at_the_edges_that_drew_it():
    """Both siblings of best-drawn are cut into one interval for each token that its distribution can draw."""
    made = open_mutant("best-drawn")
    boxes, _ = BoxCutter(made).cut_round(Prefix(PROMPT, 0, 2), {})
    first, second = ((Purpose.DRAFT, 0, node) for node in (0, 1))
    assert len({box[first] for _, box in boxes}) == 5
    for span in {box[first] for _, box in boxes}:
        others = sorted({box[second] for _, box in boxes if box[first] == span})
        assert len(others) == 4 and (others[0][0], others[-1][1]) == ALL
        assert all(one[1] == other[0] for one, other in pairwise(others))


def test_draws_without_a_listener_are_the_same():
    """The numbers that are reported do not change what is drawn."""
    probs, u = torch.tensor(draw_distribution("any", 9, 40), dtype=torch.float64), torch.rand(200, dtype=torch.float64)
    alone = draw_tokens(probs.expand(200, -1), u)
    heard = []

    class Ear:
        def on_draw(self, u, cumulative, found):
            heard.append((u, found))

    with listen_to_comparisons(Ear()):
        assert torch.equal(draw_tokens(probs.expand(200, -1), u), alone)
    ((told, found),) = heard
    assert torch.equal(told, u) and torch.equal(found, alone)
    draw_tokens(probs, u[0])
    assert len(heard) == 1, "after the block nobody listens"
