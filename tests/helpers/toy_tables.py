"""Small worlds for the proofs: tables of fractions, random numbers that are enumerated, the production round walked outcome by outcome."""

from __future__ import annotations

import math
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import torch

from specviz.decoding.engine import step
from specviz.models.table import TableModel
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.draw import draw_tokens
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule, compute_residual
from tests.oracle.token_rule import Distribution, Table

DRAFTS = ("random", "uniform", "one-hot", "disjoint", "equal")


# Tables of fractions ---------------------------------------------------------------------------------------------------


def draw_distribution(seed: object, vocabulary: int, parts: int, support: Sequence[int] | None = None) -> Distribution:
    """A distribution whose masses are multiples of 1 / parts, on the support given."""
    dice = random.Random(repr(seed))
    counts = [0] * vocabulary
    for _ in range(parts):
        counts[dice.choice(support if support is not None else range(vocabulary))] += 1
    return tuple(Fraction(count, parts) for count in counts)


def build_one_hot(token: int, vocabulary: int) -> Distribution:
    return tuple(Fraction(int(i == token)) for i in range(vocabulary))


def remember(table: Table) -> Table:
    """The same table, each prefix computed once."""
    known: dict[tuple[int, ...], Distribution] = {}
    return lambda ids: known[ids] if ids in known else known.setdefault(ids, table(ids))


def pair(kind: str, seed: int, vocabulary: int, parts: int) -> tuple[Table, Table]:
    """Target and draft whose distributions differ with every prefix, and so with every position."""
    low, high = range(vocabulary // 2), range(vocabulary // 2, vocabulary)

    def p(ids: tuple[int, ...]) -> Distribution:
        return draw_distribution(("p", seed, ids), vocabulary, parts, low if kind == "disjoint" else None)

    def q(ids: tuple[int, ...]) -> Distribution:
        match kind:
            case "uniform":
                return (Fraction(1, vocabulary),) * vocabulary
            case "one-hot":
                return build_one_hot(random.Random(repr(("q", seed, ids))).randrange(vocabulary), vocabulary)
            case "equal":
                return p(ids)
        return draw_distribution(("q", seed, ids), vocabulary, parts, high if kind == "disjoint" else None)

    return remember(p), remember(q)


LAST_PLACE = os.environ.get("SPECVIZ_LAST_PLACE")  # a seed: the models of all tests get tables moved by a last bit


def move_table(table: Table | Sequence, seed: int) -> Table:
    """A table each of whose numbers lies one unit in the last place beside, above or below at random; zeros and ones stay.

    The mathematics libraries of another processor round so: no test may hang on a last bit. ``make test-all`` runs the tests on
    tables once more with models moved so, and oracles that are not.
    """

    def beside(ids: tuple[int, ...]) -> tuple[float, ...]:
        dice = np.random.default_rng([seed, *ids])
        masses = [float(mass) for mass in (table(ids) if callable(table) else table)]
        return tuple(float(np.nextafter(m, dice.choice((0.0, 1.0)))) if 0.0 < m < 1.0 else m for m in masses)

    return remember(beside)


def model(
    table: Table, vocabulary: int, settings: Settings | None = None, context: int | None = None, kind=TableModel
) -> TableModel:
    given = table if LAST_PLACE is None else move_table(table, int(LAST_PLACE))
    return kind(given, vocabulary, settings, context)


# Proposers -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Siblings:
    """A full tree: under each node of level i, ``branching[i]`` tokens drawn independently from the draft's distribution there."""

    draft: TableModel
    branching: tuple[int, ...]
    name: str = "siblings"

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        return join_trees([self._tree(row, randomness) for row in rows], self.name)

    def _tree(self, row: Prefix, randomness: Randomness):
        tokens, parents, distributions, uniforms = [], [], [], []
        paths, level_nodes = {ROOT: ()}, [ROOT]
        for level, width in enumerate(self.branching[: row.remaining - 1]):
            grown = []
            for parent in level_nodes:
                q = self.draft.compute_probs(row.ids + paths[parent])
                for _ in range(width):
                    node = len(tokens)
                    u = randomness.take(Purpose.DRAFT, [row], node, level)
                    token = int(draw_tokens(q, torch.from_numpy(u)[0]))
                    tokens.append(token), parents.append(parent), distributions.append(q), uniforms.append(float(u[0]))
                    paths[node] = (*paths[parent], token)
                    grown.append(node)
            level_nodes = grown
        return tokens, parents, distributions, uniforms


@dataclass(frozen=True)
class FixedTree:
    """A greedy tree: sibling i under a prefix is ``draft token(prefix, i)`` for certain, so its distribution is one-hot."""

    draft_token: Callable[[tuple[int, ...], int], int]
    branching: tuple[int, ...]
    vocabulary: int
    name: str = "fixed"

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        return join_trees([self._tree(row) for row in rows], self.name)

    def _tree(self, row: Prefix):
        tokens, parents = [], []
        paths, level_nodes = {ROOT: ()}, [ROOT]
        for width in self.branching[: row.remaining - 1]:
            grown = []
            for parent in level_nodes:
                for count in range(width):
                    token = self.draft_token(row.ids + paths[parent], count)
                    paths[len(tokens)] = (*paths[parent], token)
                    grown.append(len(tokens))
                    tokens.append(token), parents.append(parent)
            level_nodes = grown
        distributions = [torch.tensor([float(x) for x in build_one_hot(t, self.vocabulary)], dtype=torch.float64) for t in tokens]
        return tokens, parents, distributions, [None] * len(tokens)


def join_trees(trees: list, name: str) -> DraftTree:
    """One block of several rows' trees."""
    return DraftTree(
        tokens=tuple(tuple(tree[0]) for tree in trees),
        parents=tuple(tuple(tree[1]) for tree in trees),
        q=tuple(torch.stack(tree[2]) if tree[2] else None for tree in trees),
        u_draft=tuple(tuple(tree[3]) for tree in trees),
        source=name,
        counts_fixed=True,
    )


# Random numbers -----------------------------------------------------------------------------------------------------------------


class RecordingRandomness:
    """Random numbers that record every address that was asked for."""

    def __init__(self, randomness: Randomness):
        self.randomness, self.addresses = randomness, []

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        self.addresses += [(purpose, row.start, node, row.draw) for row in rows]
        return self.randomness.take(purpose, rows, node, depth)

    @property
    def reused(self) -> set[tuple]:
        return {address for address in self.addresses if self.addresses.count(address) > 1}


class ScriptedRandomness:
    """Row ``draw`` finds its numbers in scripts[draw] by (purpose, node); what is not there is noted, and one half."""

    def __init__(self, scripts: Sequence[dict[tuple[Purpose, int], float]]):
        self.scripts = scripts
        self.missing: list[list[tuple[Purpose, int]]] = [[] for _ in scripts]

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        result = []
        for row in rows:
            u = self.scripts[row.draw].get((purpose, node))
            if u is None:
                self.missing[row.draw].append((purpose, node))
            result.append(0.5 if u is None else u)
        return np.array(result)


# Walking every outcome of the production step --------------------------------------------------------------------------

Branches = Callable[[tuple[Purpose, int], Round], list[tuple[float, Fraction | float]]]


@dataclass(frozen=True)
class World:
    """The arguments of ``step``."""

    target: TableModel
    proposer: object
    rule: Rule = field(default_factory=TokenRule)
    eos_token_ids: frozenset[int] = frozenset()


def enumerate_leaves(world: World, prefix: Prefix, branches: Branches) -> Iterator[tuple[Round, Fraction | float]]:
    """Every outcome of one production round with its weight.

    Only random numbers that the round asks for are branched on: a round that meets an unknown random number is run again once for
    every value that ``branches`` gives it. All rows that are still open go through ``step`` as one batch.
    """
    pending: list[tuple[dict, Fraction | float]] = [({}, 1)]
    while pending:
        randomness = ScriptedRandomness([script for script, _ in pending])
        rows = [Prefix(prefix.ids, prefix.start, prefix.remaining, number) for number in range(len(pending))]
        rounds = step(rows, world.target, world.proposer, world.rule, randomness, world.eos_token_ids)
        grown = []
        for (script, weight), round_, missing in zip(pending, rounds, randomness.missing, strict=True):
            if not missing:
                yield round_, weight
                continue
            for u, share in branches(missing[0], round_):
                grown.append((script | {missing[0]: u}, weight * share))
        pending = grown


def enumerate_round(world: World, prefix: Prefix, branches: Branches) -> dict[tuple[int, ...], Fraction | float]:
    """Distribution of the tokens that one production round commits."""
    result: dict = defaultdict(int)
    for round_, weight in enumerate_leaves(world, prefix, branches):
        result[round_.committed] += weight
    return dict(result)


def build_grid(drawn: int, other: int) -> Branches:
    """Random numbers on midpoints: ``drawn`` cells for a number that draws from a given distribution, ``other`` cells elsewhere.

    Where each cell count is a multiple of every denominator that a comparison can have, no midpoint ever meets a tie and
    the share of cells on either side is the probability itself, as a fraction.
    """
    cells = {Purpose.DRAFT: drawn, Purpose.BONUS: drawn, Purpose.ACCEPT: other, Purpose.RESIDUAL: other}

    def branches(uniform: tuple[Purpose, int], _: Round) -> list[tuple[float, Fraction]]:
        count = cells[uniform[0]]
        return [((k + 0.5) / count, Fraction(1, count)) for k in range(count)]

    return branches


def build_common_grid(parts: int) -> Branches:
    """For distributions in multiples of 1/parts and no siblings: p/q and residual masses have denominators up to ``parts``."""
    return build_grid(parts, math.lcm(*range(1, parts + 1)))


def list_interval_branches(uniform: tuple[Purpose, int], round_: Round) -> list[tuple[float, float]]:
    """In float64: one number inside each interval on which the outcome is constant, with the interval's length.

    Thresholds come from the Decision, distributions from the production residual; nothing is computed beside the rule.
    """
    purpose, node = uniform
    if purpose is Purpose.ACCEPT:
        edge = round_.proposals[node].threshold
        return [branch for branch in ((edge / 2, edge), ((1 + edge) / 2, 1 - edge)) if branch[1] > 0]
    if purpose is Purpose.DRAFT:
        return _intervals(round_.full.q[node])
    if purpose is Purpose.BONUS:
        kept = [index for index, decision in enumerate(round_.proposals) if decision.accepted]
        return _intervals(round_.full.p[kept[-1] + 1 if kept else 0])
    probs = round_.full.p[round_.proposals[node].parent + 1]
    for index, decision in enumerate(round_.proposals[: node + 1]):
        if decision.parent == round_.proposals[node].parent:
            probs = compute_residual(probs, round_.full.q[index])
    return _intervals(probs)


def _intervals(probs: torch.Tensor) -> list[tuple[float, float]]:
    ends = probs.cumsum(-1)
    middles = ((ends - probs / 2) / ends[-1]).tolist()
    return [(u, mass) for u, mass in zip(middles, probs.tolist(), strict=True) if mass > 0]
