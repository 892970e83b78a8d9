"""A tree of fixed shape from the draft model: one draft pass per level (Miao et al. 2024, SpecInfer).

Siblings are *top*: the most likely tokens, not drawn, one-hot; *independent*: drawn from q, with replacement; or *distinct*:
drawn without replacement, where the second is drawn from q without the first token, rescaled, and the rule is given that same
array (Jeon et al. 2024, recursive rejection sampling; Yang et al. 2024, multi-candidate speculative decoding).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.proposers.trees.growth import (
    Place,
    TreeGrowth,
    add_certain_children,
    assemble_tree,
    count_levels,
    draw_children,
    find_places,
)
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree


class FixedTree:
    """A tree with ``widths`` children below every node, level by level.

    A row near its length cap or the draft's context gets fewer levels. The draft's distributions are q for drawn siblings; for
    ``top`` they only rank tokens, so they may have any temperature.
    """

    name = "tree"

    def __init__(self, draft: LanguageModel, widths: Sequence[int], siblings: str):
        self.draft, self.widths, self.siblings = draft, tuple(widths), siblings

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [TreeGrowth(row, count_levels(row, len(self.widths), self.draft.context)) for row in rows]
        ends = [(tree, ROOT) for tree in trees]
        for level, width in enumerate(self.widths):
            ends = [(tree, node) for tree, node in ends if level < tree.levels]
            if not ends:
                break
            ends = self._grow_level(find_places(self.draft, ends), width, randomness, level)
        return assemble_tree(trees, self.name, counts_fixed=True)

    def _grow_level(self, places: list[Place], width: int, randomness: Randomness, level: int) -> list[tuple[TreeGrowth, int]]:
        """Grow one level. Returns the nodes to grow further: of siblings with the same token only the first."""
        if self.siblings == "top":
            return [
                (tree, n)
                for tree, at, probs in places
                for n in add_certain_children(tree, at, find_most_likely(probs, width), probs)
            ]
        grown: list[tuple[TreeGrowth, int]] = []
        for count in range(width):
            here = [place for place in places if can_draw_sibling(place[2], count, self.siblings)]
            if here:
                distributions = [
                    (tree, at, compute_sibling_distribution(tree, at, probs, self.siblings)) for tree, at, probs in here
                ]
                grown += zip((tree for tree, _, _ in here), draw_children(distributions, randomness, level), strict=True)
        return [(tree, node) for tree, node in grown if tree.find_first_twin(node) == node]


def find_most_likely(probs: Tensor, count: int) -> list[int]:
    """The ``count`` most likely tokens of a distribution (V,), in order, smaller ids first among equals; none of mass 0."""
    masses, ids = (
        found.tolist() for found in probs.topk(min(count + 1, len(probs)))
    )  # one more, to see a tie for the last place
    if all(one > other or not other for one, other in pairwise(masses)):
        return [token for token, mass in zip(ids[:count], masses, strict=False) if mass]
    ids = (probs >= masses[:count][-1]).nonzero()[:, 0]  # few ids: sorting the whole vocabulary takes five times as long
    largest, order = probs[ids].sort(descending=True, stable=True)
    return ids[order[:count]][largest[:count] > 0].tolist()


def can_draw_sibling(probs: Tensor, count: int, siblings: str) -> bool:
    """Whether sibling number ``count`` (from 0) can be drawn: without replacement each token is drawn once."""
    if siblings == "independent" or count == 0:
        return bool(probs.any())
    return count < int(probs.count_nonzero())


def compute_sibling_distribution(tree: TreeGrowth, parent: int, probs: Tensor, siblings: str) -> Tensor:
    """The distribution of the next sibling below ``parent``, (V,): if ``distinct``, without the tokens already drawn."""
    drawn = [tree.tokens[node] for node in tree.list_children(parent)] if siblings == "distinct" else []
    if not drawn:
        return probs
    left = probs.clone()
    for token in drawn:
        left[token] = 0.0
    return left.div_(left.sum())
