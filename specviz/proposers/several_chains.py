"""Several independent chains from one draft model, for recursive rejection (Miao et al. 2024, SpecInfer).

If two chains draw the same token after the same text, both draws remain as siblings, and both chains continue below the first:
once that is rejected, the second is never accepted. A node has as many children as chains pass through it, fixed before the first
is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.models.base import LanguageModel
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.proposers.trees.growth import TreeGrowth, assemble_tree, count_levels, draw_children, find_places
from specviz.randomness import Prefix, Randomness
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.registry import DraftForm


class SeveralChains:
    """``drafts`` chains of ``gamma`` tokens. With one chain it is ``DraftModel``, random number by random number."""

    name = "several"

    def __init__(self, draft: LanguageModel, drafts: int, gamma: int):
        self.draft, self.drafts, self.gamma = draft, drafts, gamma

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [TreeGrowth(row, count_levels(row, self.gamma, self.draft.context)) for row in rows]
        ends = [(tree, ROOT) for tree in trees for _ in range(self.drafts)]
        for level in range(self.gamma):
            ends = [(tree, node) for tree, node in ends if level < tree.levels]
            if not ends:
                break
            places = [place for place in find_places(self.draft, ends) if place[2].any()]  # else nothing can be drafted there
            drawn = draw_children(places, randomness, level) if places else []
            ends = [(tree, tree.find_first_twin(node)) for (tree, *_), node in zip(places, drawn, strict=True)]
        return assemble_tree(trees, self.name, counts_fixed=True)


def _describe_several(settings: Settings) -> DraftForm:
    return DraftForm(branches=settings.num_chains > 1)


@register_proposer("several", title="several chains", form=_describe_several, reads=("gamma", "num_chains"))
def _build_several_chains(request: DraftingRequest) -> SeveralChains:
    return SeveralChains(request.draft, request.settings.num_chains, request.settings.gamma)
