"""EAGLE: a head drafts by predicting the target's next hidden states, a chain or a tree (Li et al. 2024).

The head's distribution after a draft token depends on which tokens are draft tokens, because it reads the target's states for the text
and its own predictions for these. Drafting therefore asks it about the prefix with a tree below it, never about a longer text.
"""

from __future__ import annotations

from collections.abc import Callable

from specviz.models.base import LanguageModel
from specviz.proposers.base import Nothing, Proposer
from specviz.proposers.on_states import OnStates
from specviz.proposers.trees.budget import WIDEST, BudgetTree, RankedTree
from specviz.proposers.trees.fixed import Tree
from specviz.settings import TREE_LEVELS, Settings, widths

NAME = "eagle"


def eagle(head: Callable[[bool], LanguageModel], settings: Settings) -> Proposer:
    """A chain of gamma tokens; with a shape or a number of nodes a tree. At temperature 0 siblings are the most likely tokens.

    head  opens the head; True: at temperature 1 without cuts, for siblings that are ranked and not drawn
    """
    top, shape = settings.siblings == "top" or settings.temperature == 0.0, widths(settings.tree)
    if not shape and settings.tree_budget is None:
        if not settings.gamma:
            return Nothing()
        return OnStates(NAME, Tree(head(top), (1,) * settings.gamma, "top" if top else "independent"))
    if settings.tree_budget is None:
        return OnStates(NAME, Tree(head(top), shape, "top" if top else settings.siblings))
    shape = shape or (WIDEST,) * min(settings.gamma, TREE_LEVELS)
    if top:
        return OnStates(NAME, RankedTree(head(True), shape, settings.tree_budget))
    return OnStates(NAME, BudgetTree(head(False), shape, settings.siblings, settings.tree_budget))
