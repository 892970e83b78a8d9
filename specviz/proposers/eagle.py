"""EAGLE: a head drafts by predicting the target's next hidden states, a chain or a tree (Li et al. 2024).

The head reads the target's states for the text and its own predictions for draft tokens, so drafting calls it for the prefix with
a tree below it, never for a longer text.
"""

from __future__ import annotations

from collections.abc import Callable

from specviz.models.attachments.eagle import EAGLES, load_eagle
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.models.uncached import UncachedDraftHead
from specviz.proposers.base import HiddenStateProposer, Proposer
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.proposers.trees.fixed import FixedTree
from specviz.proposers.trees.proposer import build_tree, describe_tree, takes_top
from specviz.settings import TREE_LEVELS, Settings
from specviz.verification.registry import DraftForm

NAME = "eagle"


def drafts_chain(settings: Settings) -> bool:
    """Whether neither a shape nor a number of nodes is given."""
    return not settings.tree and settings.tree_budget is None


def _describe_eagle(settings: Settings) -> DraftForm:
    return DraftForm() if drafts_chain(settings) else describe_tree(settings)


def _build_head_reference(pair: LoadedPair, settings: Settings) -> UncachedDraftHead:
    head = EAGLES.find(pair.name, pair.target, settings.eagle, load_eagle)
    return UncachedDraftHead(pair.target, head, settings, pair.vocabulary)


@register_proposer(
    "eagle",
    title="EAGLE head",
    form=_describe_eagle,
    reads=("gamma", "tree", "siblings", "tree_budget", "eagle"),
    build_reference=_build_head_reference,
)
def _build_eagle(request: DraftingRequest) -> Proposer:
    return build_head_proposer(request.open_eagle_head, request.settings)


def build_head_proposer(open_head: Callable[[bool], LanguageModel], settings: Settings) -> Proposer:
    """A chain of gamma tokens; with a shape or a number of nodes a tree. At temperature 0 siblings are the most likely tokens.

    ``open_head``: opens the head; True: at temperature 1 without cuts, for siblings that are ranked and not drawn.
    """
    if not drafts_chain(settings):
        made = build_tree(open_head, settings, (), min(settings.gamma, TREE_LEVELS))
        return HiddenStateProposer(NAME, made)
    if not settings.gamma:
        return NoDraft()
    top = takes_top(settings)
    chain = FixedTree(open_head(top), (1,) * settings.gamma, "top" if top else "independent")
    return HiddenStateProposer(NAME, chain)
