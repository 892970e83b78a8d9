"""Target-only sampling: no draft tokens."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import DraftTree, build_empty_tree
from specviz.verification.registry import DraftForm


class NoDraft:
    """gamma = 0: no draft tokens. Each target pass gives one token."""

    name = "none"
    draft = None

    def count_levels(self, row: Prefix) -> int:
        return 0

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        return build_empty_tree(len(rows))


@register_proposer("none", title="target only", form=DraftForm(fixed_length=True))
def _build_no_draft(request: DraftingRequest) -> NoDraft:
    return NoDraft()
