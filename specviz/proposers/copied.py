"""Draft tokens copied from a text: what followed the last time the same tokens occurred. No model, one-hot distributions.

The rule accepts a copied token with the probability that the target gives it. If nothing matches, nothing is drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specviz.proposers.base import Proposer
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.proposers.trees.growth import TreeGrowth, add_certain_children, assemble_tree, count_levels
from specviz.randomness import Prefix, Randomness
from specviz.settings import LOOKUP_TOKENS
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.registry import DraftForm

Tokens = Sequence[int]
Continue = Callable[[Tokens, int], list[int]]  # (text so far, count) -> at most ``count`` tokens that may follow


class CopiedTokens:
    """A chain of at most ``gamma`` tokens that ``follow``, a pure function of the text, finds, with one-hot distributions."""

    def __init__(self, name: str, follow: Continue, gamma: int, vocabulary: int, device: torch.device | str = "cpu"):
        self.name, self.follow, self.gamma = name, follow, gamma
        self.like = torch.zeros(vocabulary, dtype=torch.float64, device=device)

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [TreeGrowth(row, count_levels(row, self.gamma, None)) for row in rows]
        lookups = {(tree.row.ids, tree.levels) for tree in trees if tree.levels}  # rows with the same text are looked up once
        found = {one: self.follow(*one) for one in lookups}
        for tree in trees:
            parent = ROOT
            for token in found.get((tree.row.ids, tree.levels), ()):
                (parent,) = add_certain_children(tree, parent, [token], self.like)
        return assemble_tree(trees, self.name, counts_fixed=True)


def build_copying(request: DraftingRequest, name: str, follow: Continue) -> CopiedTokens:
    """What ``follow`` finds, gamma tokens at most. name: of the drafting method."""
    return CopiedTokens(name, follow, request.settings.gamma, request.target.vocabulary, request.device)


@register_proposer(
    "ngram",
    title="n-grams of the text itself",
    form=DraftForm(copies=True),
    reads=("gamma",),
    runs_model=False,
    server_commands="ngram",
)
def _build_ngram_lookup(request: DraftingRequest) -> Proposer:
    return build_copying(request, "ngram", follow_own_text)


def follow_own_text(ids: Tokens, count: int) -> list[int]:
    """Prompt lookup (Saxena 2023): the tokens after the latest earlier occurrence of the text's ending.

    The longest ending that occurs earlier is used, of at most LOOKUP_TOKENS tokens. The copy may run into tokens that were just copied,
    so a phrase keeps repeating.
    """
    for length in range(min(LOOKUP_TOKENS, len(ids) - 1), 0, -1):
        ending, last = ids[-length:], ids[-1]
        for end in range(len(ids) - 1, length - 1, -1):  # the tokens before ``end`` are compared with the ending
            if ids[end - 1] == last and ids[end - length : end] == ending:
                copied = list(ids)
                for place in range(end, end + count):
                    copied.append(copied[place])
                return copied[len(ids) :]
    return []
