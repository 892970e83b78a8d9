"""Several chains from one draft, drawn independently and side by side, for recursive rejection (Miao et al. 2024, SpecInfer).

Where two chains draw the same token after the same text, both draws stand as siblings, since both were drawn. Both chains go on below
the first: under recursive rejection the second is never kept once the first is rejected. Below a node there are as many tokens as chains
come by, a number that the level above has fixed before the first of them is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.models.base import LanguageModel
from specviz.proposers.trees.growth import Growth, draw_below, levels_of, places_below, tree_of
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree


class SeveralDrafts:
    """``drafts`` chains of ``gamma`` tokens. One chain is the draft proposer, number by number."""

    name = "several"

    def __init__(self, draft: LanguageModel, drafts: int, gamma: int):
        self.draft, self.drafts, self.gamma = draft, drafts, gamma

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [Growth(row, levels_of(row, self.gamma, self.draft.context)) for row in rows]
        ends = [(tree, ROOT) for tree in trees for _ in range(self.drafts)]
        for level in range(self.gamma):
            ends = [(tree, node) for tree, node in ends if level < tree.levels]
            if not ends:
                break
            drawn = draw_below(places_below(self.draft, ends), randomness, level)
            ends = [(tree, tree.first_of(node)) for (tree, _), node in zip(ends, drawn, strict=True)]
        return tree_of(trees, self.name, counts_fixed=True)
