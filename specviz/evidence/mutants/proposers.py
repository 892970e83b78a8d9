"""Proposers that break the one thing asked of them: each token with the distribution it was drawn from, and none dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from specviz.models.base import LanguageModel
from specviz.proposers.draft import DraftModel
from specviz.proposers.trees.fixed import Tree
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree, empty_tree
from specviz.verification.warp import one_hot


class Misreporting(DraftModel):
    """Draws its chain from one source and hands over the distributions of another.

    draft    drawn from
    claimed  reported to the rule in ``q``, prefix by prefix; also read by the sampler of many continuations
    """

    name = "misreporting"

    def __init__(self, draft: LanguageModel, claimed: LanguageModel, gamma: int):
        super().__init__(draft, gamma)
        self.claimed = claimed

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        block = super().propose(rows, randomness)
        said = self.claimed.distributions(rows, block)
        return replace(block, q=tuple(said[i, : len(tokens)] if tokens else None for i, tokens in enumerate(block.tokens)))


class Dropping(DraftModel):
    """Ends its chain before the first drawn token whose own q is below ``least``: that token is looked at and thrown away."""

    name = "dropping"

    def __init__(self, draft: LanguageModel, gamma: int, least: float):
        super().__init__(draft, gamma)
        self.least = least

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        block = super().propose(rows, randomness)
        return only(block, [range(self._kept(block, index)) for index in range(len(rows))], self.name)

    def _kept(self, block: DraftTree, index: int) -> int:
        for node, token in enumerate(block.tokens[index]):
            if float(block.q[index][node, token]) < self.least:
                return node
        return len(block.tokens[index])


class BestOfDrawn(Tree):
    """Draws siblings without replacement and hands over the ``nodes`` of them that the draft finds likeliest; the others are
    looked at and thrown away."""

    name = "best of drawn"

    def __init__(self, draft: LanguageModel, width: int, nodes: int):
        super().__init__(draft, (width,), "distinct")
        self.nodes = nodes

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        block = super().propose(rows, randomness)
        return only(block, [self._best(block, index) for index in range(len(rows))], self.name)

    def _best(self, block: DraftTree, index: int) -> list[int]:
        """In the order they were drawn. The first sibling's distribution is the draft's own."""
        tokens, q = block.tokens[index], block.q[index]
        return sorted(sorted(range(len(tokens)), key=lambda node: -float(q[0, tokens[node]]))[: self.nodes])


class TopSiblings:
    """The draft's likeliest tokens side by side under the prefix, drafted without chance: each has a one-hot distribution."""

    name = "top"

    def __init__(self, draft: LanguageModel, width: int):
        self.draft, self.width = draft, width

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        distributions = self.draft.distributions(rows, empty_tree(len(rows)))[:, 0]
        order = torch.sort(distributions, dim=-1, descending=True, stable=True).indices[:, : self.width].tolist()
        tokens = tuple(tuple(ids) if row.remaining > 1 else () for ids, row in zip(order, rows, strict=True))
        return DraftTree(
            tokens=tokens,
            parents=tuple((ROOT,) * len(ids) for ids in tokens),
            q=tuple(
                one_hot(torch.tensor(ids, device=distributions.device), self.draft.vocabulary) if ids else None for ids in tokens
            ),
            u_draft=tuple((None,) * len(ids) for ids in tokens),
            source=self.name,
        )


def only(block: DraftTree, kept: Sequence[Sequence[int]], source: str) -> DraftTree:
    """A block with these nodes of each row alone, parents among them, each with the distribution it was drawn from."""
    places = [{ROOT: ROOT} | {node: place for place, node in enumerate(nodes)} for nodes in kept]
    return DraftTree(
        tokens=tuple(tuple(block.tokens[i][node] for node in nodes) for i, nodes in enumerate(kept)),
        parents=tuple(tuple(places[i][block.parents[i][node]] for node in nodes) for i, nodes in enumerate(kept)),
        q=tuple(block.q[i][list(nodes)] if nodes else None for i, nodes in enumerate(kept)),
        u_draft=tuple(tuple(block.u_draft[i][node] for node in nodes) for i, nodes in enumerate(kept)),
        source=source,
    )
