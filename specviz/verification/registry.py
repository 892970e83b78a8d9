"""Every rule by name. A new rule is one file beside this one, and one line here.

What the proof of each rule requires of the number of draft tokens, beyond what every proposer promises (proposers/base.py):

    token    nothing: the number of siblings and of levels may depend on the values drawn before
    block    one child per node; where the chain ends may depend on the values drawn before
    k-seq    the number of children of each node is fixed before the first of them is drawn (DraftTree.counts_fixed), and all
             are drawn from one distribution
    typical  nothing: it does not keep the target's distribution

docs/exactness.md has the arguments, and every proposer under every rule.
"""

from __future__ import annotations

from collections.abc import Callable

from specviz.errors import SettingsError
from specviz.settings import CHAINS_OR_TREES, SIDE_BY_SIDE, TREES, Settings, widths
from specviz.verification import block, k_sequential
from specviz.verification.block import BlockRule
from specviz.verification.k_sequential import SequentialRule
from specviz.verification.token import Rule, TokenRule
from specviz.verification.typical import TypicalRule

RULES: dict[str, Callable[[Settings], Rule]] = {
    "token": lambda settings: TokenRule(),
    "block": lambda settings: BlockRule(),
    "k-seq": lambda settings: SequentialRule(),
    "typical": lambda settings: TypicalRule(settings.typical_epsilon),
}


def rule_of(settings: Settings) -> Rule:
    """The rule that settings name.

    Raises SettingsError for an unknown name, listing the known ones, and for a rule that cannot judge what the proposer may
    draft. It does so before any model is read, not in the middle of a text where a tree first branches.
    """
    if settings.rule not in RULES:
        raise SettingsError("rule", settings.rule, f"one of {', '.join(RULES)}")
    if settings.rule == BlockRule.name and may_branch(settings):
        raise SettingsError("rule", settings.rule, block.ALLOWED)
    if settings.rule == SequentialRule.name and may_branch(settings) and not share_distribution(settings):
        raise SettingsError("rule", settings.rule, k_sequential.ALLOWED)
    return RULES[settings.rule](settings)


def may_branch(settings: Settings) -> bool:
    """Whether a node of the draft tree may have two children."""
    if settings.proposer in SIDE_BY_SIDE:
        return settings.num_chains > 1
    if settings.proposer in CHAINS_OR_TREES and not settings.tree and settings.tree_budget is None:
        return False
    trees = (*TREES, *CHAINS_OR_TREES)
    return settings.proposer in trees and settings.tree_budget != 1 and any(width > 1 for width in widths(settings.tree) or (2,))


def share_distribution(settings: Settings) -> bool:
    """Whether siblings are drawn from one and the same distribution."""
    if settings.proposer in SIDE_BY_SIDE:
        return settings.proposer == "several"
    return settings.siblings == "independent" and settings.temperature > 0.0
