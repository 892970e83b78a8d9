"""Typical acceptance: a draft token is accepted if the target finds it likely enough. Lossy: it trades quality for speed.

Cai et al. 2024, Medusa, section 2.3.1. A draft token x is accepted iff p(x) > min(epsilon, delta exp(-H(p))), where H is the
entropy of p in nats and delta = sqrt(epsilon). The longest accepted path wins; among equally long ones the likelier. The token
after it is the target's most likely one, always.

The rule uses neither the draft's distributions nor random numbers, and puts no condition on the tree. At temperature 0 it
coincides with the target.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import torch
from torch import Tensor

from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree, find_children
from specviz.verification.registry import register_rule
from specviz.verification.rule import RuleView
from specviz.verification.token import Check, TokenRule, TreeWalk
from specviz.verification.warp import build_one_hot, find_first_argmax


def compute_typical_bound(p: Tensor, epsilon: float) -> float:
    """min(epsilon, sqrt(epsilon) exp(-H(p))): the bound that p(x) must exceed. p (V,) float64; epsilon above 0, at most 1."""
    return min(epsilon, sqrt(epsilon) * exp(-float(torch.special.entr(p).sum())))


class TypicalRule(TokenRule):
    """Typical acceptance, lossy: a draft token is accepted for certain or rejected for certain. epsilon is above 0, at most 1.

    A token's p must exceed ``bar``, known once a distribution is given (``condition_on``). Recorded thresholds are 1 and 0, so
    the recorded random numbers decide nothing. In a tree only the siblings of the winning path's nodes are recorded as checked.
    """

    name, title = "typical", "typical acceptance (lossy)"
    exact = False

    def __init__(self, epsilon: float, bar: float | None = None):
        self.epsilon, self.bar = epsilon, bar

    def condition_on(self, p: Tensor) -> TypicalRule:
        return TypicalRule(self.epsilon, compute_typical_bound(p, self.epsilon))

    def compute_threshold(self, p: float, q: float) -> float:
        assert self.bar is not None, "condition_on() gives the bound"
        return float(p > self.bar)

    def accepts(self, u: Any, p: Any, q: Any) -> Any:
        return p > self.bar

    def compute_replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return self.compute_bonus(p)

    def compute_bonus(self, p: Tensor) -> Tensor:
        return build_one_hot(find_first_argmax(p), p.shape[-1])

    def find_impossible_tokens(self, p: Tensor) -> Tensor:
        """Tokens that p allows but this rule never writes, (V,) bool: neither typical nor the most likely."""
        possible = (p > compute_typical_bound(p, self.epsilon)) | (self.compute_bonus(p) > 0.0)
        return (p > 0.0) & ~possible

    def find_accepted(self, walk: TreeWalk, parent: int, siblings: list[int]) -> int:
        """Accept the typical child with the longest typical path below it."""
        typical = [node for node in siblings if self._is_typical(walk, node)]
        best = max(typical, key=lambda node: self._find_longest_path(walk, node), default=ROOT)
        for node in siblings:
            walk.checked[node] = Check(walk.p_token[node], walk.take_uniform(node), float(node == best), node == best)
        if best != ROOT:
            return walk.accept(best)
        walk.rejected, walk.probs = siblings[-1], self.compute_bonus(walk.p[parent + 1])
        return ROOT

    def _is_typical(self, walk: TreeWalk, node: int) -> bool:
        return walk.p_token[node] > compute_typical_bound(walk.p[walk.parents[node] + 1], self.epsilon)

    def _find_longest_path(self, walk: TreeWalk, node: int) -> tuple[int, float]:
        """Length of the longest typical path that starts with a typical node, and the logarithm of its probability."""
        children = [child for child in find_children(walk.parents, node) if self._is_typical(walk, child)]
        length, likelihood = max((self._find_longest_path(walk, child) for child in children), default=(0, 0.0))
        return 1 + length, log(walk.p_token[node]) + likelihood

    def view_node(self, tree: DraftTree, index: int, p: Tensor, node: int) -> RuleView:
        probs = p[tree.parents[index][node] + 1]
        overlap = torch.where(probs > compute_typical_bound(probs, self.epsilon), tree.q[index][node], 0.0)
        return RuleView(probs, overlap, (1.0 - overlap.sum()).clamp(min=0.0) * self.compute_bonus(probs))


@register_rule("typical", title=TypicalRule.title, exact=TypicalRule.exact, reads=("typical_epsilon",))
def _build_typical_rule(settings: Settings) -> TypicalRule:
    return TypicalRule(settings.typical_epsilon)
