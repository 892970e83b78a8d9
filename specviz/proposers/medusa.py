"""Medusa: heads on the target's last hidden state draft several tokens at once, without a draft model (Cai et al. 2024).

A head's distribution does not depend on the draft tokens before it, so the distribution below a node depends only on its depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specviz.errors import SettingsError
from specviz.models.attachments.heads import HEADS, Heads, load_heads
from specviz.models.cache.decoder import CachedModel
from specviz.proposers.base import HiddenStateProposer, Proposer
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest, remove_cuts
from specviz.proposers.trees.proposer import build_tree, describe_tree
from specviz.randomness import Prefix
from specviz.settings import DEFAULT_TREE_SHAPE, Settings, read_tree_shape
from specviz.verification.draft_tree import DraftTree, compute_node_depth
from specviz.verification.warp import pad_vocabulary, warp


class HeadDistributions:
    """The heads as a language model: after the prefix the first head's distribution, below a node of depth d that of head d + 1.

    Args:
        target: The model whose hidden states the heads read; if a round has just scored its tree, no further pass is made.
        levels: Number of heads to use, at most as many as there are.
    """

    context: int | None = None

    def __init__(self, target: CachedModel, heads: Heads, settings: Settings, levels: int):
        self.target, self.heads, self.settings, self.levels = target, heads, settings, min(levels, len(heads))
        self.vocabulary = target.vocabulary
        self._rows: list[Prefix] | None = None
        self._distributions = torch.empty(0)

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as in models.base.LanguageModel; every row holds at least two tokens."""
        distributions = self._compute_head_distributions(list(rows))
        depths = torch.zeros(len(rows), tree.widest + 1, dtype=torch.int64)
        for index, parents in enumerate(tree.parents):
            for node in range(len(parents)):
                depths[index, node + 1] = compute_node_depth(parents, node) + 1
        depths.clamp_(max=self.levels - 1)  # nothing is drafted below the last head's token
        return distributions[torch.arange(len(rows))[:, None], depths]

    def _compute_head_distributions(self, rows: list[Prefix]) -> Tensor:
        """(B, levels, V): computed once per round, for all levels of its tree and once for rows with the same hidden state."""
        if rows != self._rows:
            places = {row.ids[:-1]: index for index, row in reversed([*enumerate(rows)])}  # the first row of each text
            number = {text: order for order, text in enumerate(places)}
            features = self.target.compute_features([rows[index] for index in places.values()])
            distributions = pad_vocabulary(warp(self.heads.compute_logits(features, self.levels), self.settings), self.vocabulary)
            self._rows, self._distributions = rows, distributions[[number[row.ids[:-1]] for row in rows]]
        return self._distributions


@register_proposer("medusa", title="Medusa heads", form=describe_tree, reads=("tree", "siblings", "tree_budget", "heads"))
def _build_medusa(request: DraftingRequest) -> Proposer:
    heads = HEADS.find(request.pair.name, request.pair.target, request.settings.heads, load_heads)
    return build_heads_proposer(request.target, heads, request.settings)


def build_heads_proposer(target: Any, heads: Heads, settings: Settings) -> HiddenStateProposer:
    """A tree of fixed shape (a shape of ones is a chain), or one with a budget of nodes; one level for each head at most.

    At temperature 0 siblings are the most likely tokens. Raises SettingsError for more levels than there are heads.
    """
    given, shape = read_tree_shape(settings.tree), read_tree_shape(DEFAULT_TREE_SHAPE)[: len(heads)]
    if len(given) > len(heads):
        raise SettingsError("tree", settings.tree, f"at most {len(heads)} level{'s' * (len(heads) > 1)} deep, one for each head")
    levels = len(given or (shape if settings.tree_budget is None else heads))

    def open_heads(without_cuts: bool) -> HeadDistributions:
        return HeadDistributions(target, heads, remove_cuts(settings) if without_cuts else settings, levels)

    return HiddenStateProposer("medusa", build_tree(open_heads, settings, shape, len(heads)))
