"""Every rule by name, with what its proof needs of the draft tokens beyond what every proposer promises (proposers/base.py).

docs/explanation/exactness.md has the arguments, and every proposer under every rule. A new rule is one file with ``@register_rule``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.errors import SettingsError
from specviz.registry import Registry
from specviz.settings import Settings

if TYPE_CHECKING:
    from specviz.verification.rule import Rule

BuildRule = Callable[[Settings], "Rule"]


@dataclass(frozen=True, slots=True)
class DraftForm:
    """What a proposer guarantees of every tree that it drafts under given settings. It is known before any model is read."""

    # whether a node may have two children; if not, the tree is a chain and the other guarantees hold of themselves
    branches: bool = False
    counts_fixed: bool = True  # whether the number of children of every node is fixed before the first of them is drawn
    shares_q: bool = True  # whether all children of a node are drawn from one and the same distribution
    # whether the tree is a chain whose length depends only on the length of the row and its remaining tokens, each token drawn
    # from a language model's distribution after the text before it. Many samples of one prompt can then be drawn at once, from
    # shared distributions (proposers.base.ChainProposer)
    fixed_length: bool = False
    copies: bool = False  # whether the tree is a chain that the text alone determines, with one-hot distributions


@dataclass(frozen=True, slots=True)
class RuleNeeds:
    """What the proof of a rule needs."""

    chain: bool = False  # no node has two children
    fixed_counts: bool = False  # the number of children of every node is fixed before the first of them is drawn
    shared_q: bool = False  # all children of a node are drawn from one distribution

    def find_unmet(self, form: DraftForm) -> str:
        """What draft tokens of this form lack, as the end of a sentence; '' if nothing."""
        if not form.branches:
            return ""
        if self.chain:
            return CHAIN
        if self.shared_q and not form.shares_q:
            return SHARED_Q
        return FIXED_COUNTS if self.fixed_counts and not form.counts_fixed else ""


CHAIN = "judges chains, and these draft tokens are a tree"
SHARED_Q = "needs siblings that are independent drafts from one distribution"
FIXED_COUNTS = (
    "needs the number of tokens at a node fixed before the first is drawn, and a proposer that fixes it says so with counts_fixed=True "
    "in its DraftTree"
)


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A registered rule."""

    name: str
    title: str  # the name for a person; with "lossy" where the rule is
    exact: bool  # whether the text has the target's distribution
    needs: RuleNeeds
    reads: tuple[str, ...]  # names of the settings that it reads
    build: BuildRule


RULES: Registry[RuleEntry] = Registry("rule", "specviz.verification", "register_rule", "specviz.rules", default="token")


def register_rule(
    name: str, *, title: str, exact: bool, needs: RuleNeeds | None = None, reads: tuple[str, ...] = ()
) -> Callable[[BuildRule], BuildRule]:
    """Register what builds a rule from settings. The arguments are described at ``RuleEntry``."""
    return RULES.register(name, lambda build: RuleEntry(name, title, exact, needs or RuleNeeds(), reads, build))


def refuse_unmet(rule: str, form: DraftForm) -> None:
    """Raise SettingsError if the rule of this name is not proved for draft tokens of this form; the sentence names the rules that are."""
    if why := RULES.find(rule).needs.find_unmet(form):
        able = [name for name, entry in RULES.load_all().items() if not entry.needs.find_unmet(form)]
        raise SettingsError(
            "rule", rule, f"{' or '.join((', '.join(able[:-1]), able[-1]) if able[1:] else able)} here: {rule} {why}"
        )
