"""A tree from the draft model, of a fixed shape or with a budget of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.proposers.trees.budget import WIDEST, BudgetTree, RankedTree
from specviz.proposers.trees.fixed import FixedTree
from specviz.settings import DEFAULT_TREE_SHAPE, TREE_LEVELS, Settings, read_tree_shape
from specviz.verification.registry import DraftForm


def takes_top(settings: Settings) -> bool:
    """Whether siblings are the most likely tokens, not drawn. At temperature 0 they always are."""
    return settings.siblings == "top" or settings.temperature == 0.0


def describe_tree(settings: Settings) -> DraftForm:
    """What a tree of these settings guarantees."""
    drawn_from_q = settings.siblings == "independent" and not takes_top(settings)
    return DraftForm(
        branches=settings.tree_budget != 1 and any(width > 1 for width in read_tree_shape(settings.tree) or (2,)),
        counts_fixed=settings.tree_budget is None or takes_top(settings) or drawn_from_q,
        shares_q=drawn_from_q,
    )


def build_tree(
    open_source: Callable[[bool], LanguageModel], settings: Settings, shape: Sequence[int], levels: int
) -> FixedTree | RankedTree | BudgetTree:
    """A tree of a fixed shape, or with a budget of nodes if the settings have one.

    ``open_source`` opens the model to draft from; True: at temperature 1 without cuts, to rank siblings that are not drawn. ``shape``
    is used where the settings give neither a shape nor a number of nodes, ``levels`` where they give a number of nodes only.
    """
    top, given = takes_top(settings), read_tree_shape(settings.tree)
    source, siblings = open_source(top), "top" if top else settings.siblings
    if settings.tree_budget is None:
        return FixedTree(source, given or shape, siblings)
    most = given or (WIDEST,) * levels
    return RankedTree(source, most, settings.tree_budget) if top else BudgetTree(source, most, siblings, settings.tree_budget)


@register_proposer("tree", title="tree of draft tokens", form=describe_tree, reads=("gamma", "tree", "siblings", "tree_budget"))
def _build_draft_tree(request: DraftingRequest) -> Proposer:
    """A tree from the draft model."""
    settings = request.settings

    def open_source(without_cuts: bool) -> LanguageModel:
        return request.open_uncut_draft() if without_cuts else request.draft

    return build_tree(open_source, settings, read_tree_shape(DEFAULT_TREE_SHAPE), min(settings.gamma, TREE_LEVELS))
