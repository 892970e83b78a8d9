"""The protocol of a rule, and what figures show of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from specviz.randomness import Prefix, Randomness
from specviz.trace import Outcome
from specviz.verification.draft_tree import DraftTree


class Rule(Protocol):
    """Decides which tokens a round commits. ``verify`` depends only on draft tokens, distributions and random numbers."""

    name: str  # the name in settings
    title: str  # the name for a person; with "lossy" where the rule is
    exact: bool  # whether the text has the target's distribution

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        """One Outcome per row. p: (B, N + 1, V) float64, p[:, 0] after the prefix, p[:, 1 + i] after node i.

        Raises SettingsError for a tree that the rule cannot judge.
        """
        ...

    def view_node(self, tree: DraftTree, index: int, p: Tensor, node: int) -> RuleView:
        """What a figure shows of the rule at one node of row ``index``. p (N + 1, V): the distributions of that row."""
        ...


@dataclass(frozen=True, slots=True)
class RuleView:
    """What a figure shows of a rule at one node, each (V,) float64."""

    # the distribution that the node is tested against: p after its parent, or the residual of its rejected siblings
    probs: Tensor
    overlap: Tensor  # probability that this token is drafted and accepted here; min(probs, q) under the token rule
    # the distribution of a replacement, not rescaled; max(0, probs - q) under the token rule, all zero where no replacement can
    # follow
    left: Tensor
