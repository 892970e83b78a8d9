"""Draft tokens copied from a text: what followed the last time these tokens stood in a row. No model, no chance, one-hot distributions.

The rule keeps a copied token with the probability that the target gives it, so the distribution of the text is the target's all the
same. Where nothing matches nothing is drafted, and the target writes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specviz.proposers.trees.growth import Growth, certain_below, levels_of, tree_of
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree

LONGEST = 3  # tokens that are compared, at most
Text = Sequence[int]
Continue = Callable[[Text, int], list[int]]  # (text so far, how many) -> at most so many tokens that may follow


class Copied:
    """A chain of at most ``gamma`` tokens that ``follow`` finds, each for certain.

    follow      a pure function of the text so far; no tokens where it finds nothing
    vocabulary  V of the target; device  where the target's distributions lie
    """

    def __init__(self, name: str, follow: Continue, gamma: int, vocabulary: int, device: torch.device | str = "cpu"):
        self.name, self.follow, self.gamma = name, follow, gamma
        self.like = torch.zeros(vocabulary, dtype=torch.float64, device=device)

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [Growth(row, levels_of(row, self.gamma, None)) for row in rows]
        asked = {(tree.row.ids, tree.levels) for tree in trees if tree.levels}  # rows of one text are looked up once
        found = {one: self.follow(*one) for one in asked}
        for tree in trees:
            parent = ROOT
            for token in found.get((tree.row.ids, tree.levels), ()):
                (parent,) = certain_below(tree, parent, [token], self.like)
        return tree_of(trees, self.name, counts_fixed=True)


def from_own_text(ids: Text, count: int) -> list[int]:
    """Prompt lookup (Saxena 2023; n-gram speculation): the tokens after the latest earlier place that ends as the text ends.

    The longest common ending counts, of LONGEST tokens at most. What is copied may run into what was just copied, so a
    repeated phrase goes on repeating.
    """
    for length in range(min(LONGEST, len(ids) - 1), 0, -1):
        ending, last = ids[-length:], ids[-1]
        for end in range(len(ids) - 1, length - 1, -1):  # the tokens before ``end`` are compared with the ending
            if ids[end - 1] == last and ids[end - length : end] == ending:
                copied = list(ids)
                for place in range(end, end + count):
                    copied.append(copied[place])
                return copied[len(ids) :]
    return []
