"""A chain from the draft model whose length is decided while it is drafted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.proposers.adaptive.policies import LengthPolicy
from specviz.proposers.trees.growth import TreeGrowth, assemble_tree, count_levels, draw_children
from specviz.randomness import Prefix, Randomness
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree, empty_tree
from specviz.verification.warp import warp


class AdaptiveDraft:
    """Draws from the draft's distributions until the policy ``lengths`` stops it.

    Args:
        draft: Gives the distributions.
        settings: If given, the draft's distributions are at temperature 1 without cuts. ``lengths`` sees them so; tokens are
            drawn from them after these settings are applied. At temperature 0 a warped distribution is one-hot and does not show
            how sure the draft is.
        name: Name of the drafting method.
    """

    def __init__(self, draft: LanguageModel, lengths: LengthPolicy, settings: Settings | None = None, name: str = "draft"):
        self.draft, self.lengths, self.settings, self.name = draft, lengths, settings, name
        self.remembers = lengths.remembers

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        chains = [TreeGrowth(row, count_levels(row, self.lengths.max_tokens(row), self.draft.context)) for row in rows]
        live = [chain for chain in chains if chain.levels]
        while live:
            longer = [replace(chain.row, ids=chain.row.ids + tuple(chain.tokens)) for chain in live]
            seen = self.draft.distributions(longer, empty_tree(len(live)))[:, 0]
            q = seen if self.settings is None else warp(seen.log(), self.settings)
            live = self._draw(live, seen, q, randomness)
        return assemble_tree(chains, self.name, counts_fixed=True)

    def _draw(self, live: list[TreeGrowth], seen: Tensor, q: Tensor, randomness: Randomness) -> list[TreeGrowth]:
        """Draw one more token for each chain that continues. Returns those that may still continue."""
        going = [on and mass > 0.0 for on, mass in zip(self.lengths.continues(live, seen), seen.sum(-1).tolist(), strict=True)]
        places = [
            (chain, len(chain.tokens) - 1 if chain.tokens else ROOT, probs)
            for chain, probs, on in zip(live, q, going, strict=True)
            if on
        ]
        if places:
            draw_children(places, randomness, len(places[0][0].tokens))
        return [chain for chain, _, _ in places if len(chain.tokens) < chain.levels]
