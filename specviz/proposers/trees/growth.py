"""A row's tree of draft tokens while it is being made: nodes in the order in which they are drawn, parents before children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.draw import draw, rows_of
from specviz.verification.warp import one_hot


@dataclass(slots=True)
class Growth:
    """The draft tokens of one row so far. A node that is here stays: there is no way to take one out.

    levels   how many draft tokens may stand one below the other
    q        (V,) float64 for each node: the very distribution it was drawn from
    shares   the draft's joint probability of the path down to each node, where the proposer keeps account of it
    """

    row: Prefix
    levels: int
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    q: list[Tensor] = field(default_factory=list)
    numbers: list[float | None] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def add(self, parent: int, token: int, probs: Tensor, number: float | None) -> int:
        """A new node below ``parent``; returns its index."""
        self.parents.append(parent)
        self.tokens.append(token)
        self.q.append(probs)
        self.numbers.append(number)
        return len(self.tokens) - 1

    def below(self, parent: int) -> list[int]:
        """Nodes below a parent, in the order they were drawn."""
        return [node for node, above in enumerate(self.parents) if above == parent]

    def first_of(self, node: int) -> int:
        """The first sibling that carries the node's token; the node itself where no earlier one does.

        Once that one has been rejected the residual of the token rule has no mass on the token, so nothing below a later twin is ever
        reached. k-sequential selection may keep a later twin; the round then ends there with a draw from p, as after any leaf.
        """
        return next(other for other in self.below(self.parents[node]) if self.tokens[other] == self.tokens[node])

    def path(self, node: int) -> tuple[int, ...]:
        """Tokens from the prefix down to a node, itself included."""
        found: list[int] = []
        while node != ROOT:
            found.insert(0, self.tokens[node])
            node = self.parents[node]
        return tuple(found)


Place = tuple[Growth, int, Tensor]  # a tree, the node below which something may be drawn, the draft's distribution there (V,)


def levels_of(row: Prefix, most: int, context: int | None) -> int:
    """Draft tokens that may stand one below the other: room for the rule's own token is left, and the draft's context is kept."""
    levels = min(most, row.remaining - 1)
    if context is not None:
        levels = min(levels, context - len(row.ids) + 1)
    return max(0, levels)


def places_below(draft: LanguageModel, ends: Sequence[tuple[Growth, int]]) -> list[Place]:
    """Each (tree, node) with the draft's distribution after it, by one pass of the draft over all that stands in those trees."""
    trees = list({id(tree): tree for tree, _ in ends}.values())
    distributions = draft.distributions([tree.row for tree in trees], unweighed(trees))
    index = {id(tree): number for number, tree in enumerate(trees)}
    return [(tree, node, distributions[index[id(tree)], node + 1]) for tree, node in ends]


def tree_of(trees: Sequence[Growth], source: str, counts_fixed: bool = False) -> DraftTree:
    """What is handed over: one block of all rows. counts_fixed: what Block says of it."""
    q = tuple(rows_of(tree.q) if tree.q else None for tree in trees)
    return replace(unweighed(trees, source), q=q, counts_fixed=counts_fixed)


def unweighed(trees: Sequence[Growth], source: str = "draft") -> DraftTree:
    """The same without the distributions of its nodes: all that a source of distributions looks at."""
    return DraftTree(
        tokens=tuple(tuple(tree.tokens) for tree in trees),
        parents=tuple(tuple(tree.parents) for tree in trees),
        q=(None,) * len(trees),
        u_draft=tuple(tuple(tree.numbers) for tree in trees),
        source=source,
    )


def draw_below(places: Sequence[Place], randomness: Randomness, level: int) -> list[int]:
    """Draw one more node below each (tree, parent) from the distribution beside it, with the number of the node's own address.

    A tree may be named several times; its nodes are then drawn in that order. Returns the new nodes.
    """
    numbers = _numbers([tree for tree, _, _ in places], randomness, level)
    drawn = draw(rows_of([probs for _, _, probs in places]), torch.tensor(numbers, dtype=torch.float64)).tolist()
    return [tree.add(parent, token, probs, u) for (tree, parent, probs), token, u in zip(places, drawn, numbers, strict=True)]


def _numbers(trees: Sequence[Growth], randomness: Randomness, level: int) -> list[float]:
    """The number that draws the next node of each tree; a tree named again means the node after that. One node's are taken together."""
    sizes = {id(tree): len(tree.tokens) for tree in trees}
    asked: dict[int, list[int]] = {}  # node -> places in ``trees``
    for place, tree in enumerate(trees):
        asked.setdefault(sizes[id(tree)], []).append(place)
        sizes[id(tree)] += 1
    numbers = [0.0] * len(trees)
    for node, found in asked.items():
        for place, number in zip(
            found, randomness.take(Purpose.DRAFT, [trees[i].row for i in found], node, level).tolist(), strict=True
        ):
            numbers[place] = number
    return numbers


def certain_below(tree: Growth, parent: int, tokens: Sequence[int], like: Tensor) -> list[int]:
    """Draft token tokens without chance, each for certain: no numbers, one-hot distributions of the size and place of ``like`` (V,)."""
    if not tokens:
        return []
    distributions = one_hot(torch.tensor(tokens, device=like.device), len(like))
    return [tree.add(parent, token, probs, None) for token, probs in zip(tokens, distributions, strict=True)]
