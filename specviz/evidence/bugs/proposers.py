"""Proposers that break the contract: each token comes with the distribution it was drawn from, and none is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.models.base import LanguageModel
from specviz.proposers.draft import DraftModel
from specviz.proposers.trees.fixed import FixedTree
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree


class Misreporting(DraftModel):
    """Draws its chain from one source and reports the distributions of another.

    draft    drawn from
    claimed  reported to the rule in ``q``, prefix by prefix; also read by the sampler of many continuations
    """

    name = "misreporting"

    def __init__(self, draft: LanguageModel, claimed: LanguageModel, gamma: int):
        super().__init__(draft, gamma)
        self.claimed = claimed

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        tree = super().propose(rows, randomness)
        said = self.claimed.distributions(rows, tree)
        return replace(tree, q=tuple(said[i, : len(tokens)] if tokens else None for i, tokens in enumerate(tree.tokens)))


class Dropping(DraftModel):
    """Ends its chain before the first drawn token whose own q is below ``least``: that token is looked at and thrown away."""

    name = "dropping"

    def __init__(self, draft: LanguageModel, gamma: int, least: float):
        super().__init__(draft, gamma)
        self.least = least

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        tree = super().propose(rows, randomness)
        return only(tree, [range(self._until_dropped(tree, index)) for index in range(len(rows))], self.name)

    def _until_dropped(self, tree: DraftTree, index: int) -> int:
        unsure = (node for node, token in enumerate(tree.tokens[index]) if float(tree.q[index][node, token]) < self.least)
        return next(unsure, len(tree.tokens[index]))


class BestOfDrawn(FixedTree):
    """Draws siblings without replacement and proposes the ``nodes`` of them that the draft finds most likely; the others are
    looked at and thrown away."""

    name = "best of drawn"

    def __init__(self, draft: LanguageModel, width: int, nodes: int):
        super().__init__(draft, (width,), "distinct")
        self.nodes = nodes

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        tree = super().propose(rows, randomness)
        return only(tree, [self._best(tree, index) for index in range(len(rows))], self.name)

    def _best(self, tree: DraftTree, index: int) -> list[int]:
        """In the order they were drawn. The first sibling's distribution is the draft's own."""
        tokens, q = tree.tokens[index], tree.q[index]
        return sorted(sorted(range(len(tokens)), key=lambda node: -float(q[0, tokens[node]]))[: self.nodes])


def only(tree: DraftTree, nodes: Sequence[Sequence[int]], source: str) -> DraftTree:
    """A tree with these nodes of each row alone, parents among them, each with the distribution it was drawn from."""
    places = [{ROOT: ROOT} | {node: place for place, node in enumerate(row)} for row in nodes]
    return DraftTree(
        tokens=tuple(tuple(tree.tokens[i][node] for node in row) for i, row in enumerate(nodes)),
        parents=tuple(tuple(places[i][tree.parents[i][node]] for node in row) for i, row in enumerate(nodes)),
        q=tuple(tree.q[i][list(row)] if row else None for i, row in enumerate(nodes)),
        u_draft=tuple(tuple(tree.u_draft[i][node] for node in row) for i, row in enumerate(nodes)),
        source=source,
    )
