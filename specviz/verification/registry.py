"""Every rule by name. A new one is one file beside this one, and one line here.

What the proof of each needs fixed of how many tokens are proposed, beside what every proposer promises (proposers/base.py):

    token    nothing: the number of siblings and of levels may depend on the values drawn before
    block    one child a node; where the chain ends may depend on the values drawn before
    k-seq    the number of children of each node, before the first of them is drawn (Block.counts_fixed), all from one distribution
    typical  nothing: it keeps no distribution

docs/exactness.md has the arguments, and every proposer under every rule.
"""

from __future__ import annotations

from collections.abc import Callable

from specviz.errors import SettingsError
from specviz.settings import TREES, Settings, widths
from specviz.verification import block_rule, k_sequential
from specviz.verification.block_rule import BlockRule
from specviz.verification.k_sequential import SequentialRule
from specviz.verification.token_rule import Rule, TokenRule
from specviz.verification.typical import TypicalRule

RULES: dict[str, Callable[[Settings], Rule]] = {
    "token": lambda settings: TokenRule(),
    "block": lambda settings: BlockRule(),
    "k-seq": lambda settings: SequentialRule(),
    "typical": lambda settings: TypicalRule(settings.typical),
}


def rule_of(settings: Settings) -> Rule:
    """The rule that settings name.

    Raises SettingsError listing the names there are, and for a rule that cannot judge what their proposer may make: before anything
    is read, and not in the middle of a text, where the first tree happens to branch.
    """
    if settings.rule not in RULES:
        raise SettingsError("rule", settings.rule, f"one of {', '.join(RULES)}")
    if settings.rule == BlockRule.name and branches(settings):
        raise SettingsError("rule", settings.rule, block_rule.ALLOWED)
    if settings.rule == SequentialRule.name and branches(settings) and not alike(settings):
        raise SettingsError("rule", settings.rule, k_sequential.ALLOWED)
    return RULES[settings.rule](settings)


def branches(settings: Settings) -> bool:
    """Whether a token may get two draft tokens side by side behind it."""
    if settings.proposer == "several":
        return settings.drafts > 1
    return settings.proposer in TREES and settings.nodes != 1 and any(width > 1 for width in widths(settings.tree) or (2,))


def alike(settings: Settings) -> bool:
    """Whether draft tokens side by side are drawn from one and the same distribution."""
    return settings.proposer == "several" or (settings.siblings == "independent" and settings.temperature > 0.0)
