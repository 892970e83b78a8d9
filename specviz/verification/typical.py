"""Typical acceptance: what the target finds likely enough is kept. Lossy: a trade of quality for speed, not sampling.

Cai et al. 2024, Medusa, section 2.3.1: a candidate token is kept iff p(x) > min(epsilon, delta exp(-H(p))), H the entropy of p in
nats and delta = sqrt(epsilon); the longest candidate kept so far wins, among equals the likelier one; and the token after it is the
target's likeliest, kept whatever it is. No distribution of the draft is looked at, and no luck: with draft tokens that are not drawn, the text is
one and the same each time. At temperature 0 it coincides with the target. It keeps no distribution, so it needs nothing fixed of how
many tokens are proposed.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import torch
from torch import Tensor

from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree, children
from specviz.verification.token_rule import Shown, TokenRule, Walk
from specviz.verification.warp import first_argmax, one_hot


def least_typical(p: Tensor, epsilon: float) -> float:
    """min(epsilon, sqrt(epsilon) exp(-H(p))): what a token must exceed. p (V,) float64; epsilon above 0, at most 1."""
    return min(epsilon, sqrt(epsilon) * exp(-float(torch.special.entr(p).sum())))


class TypicalRule(TokenRule):
    """Typical acceptance, lossy: a draft token is kept for certain where the target finds it likely enough, else for certain not.

    epsilon  above 0, at most 1; bar  what a token's p must exceed, known where a distribution has been looked at (``at``)

    Thresholds are 1 and 0: the random numbers that a record holds decide nothing. On a tree only the siblings beside the winner's nodes
    are recorded as looked at.
    """

    name, title = "typical", "typical acceptance (lossy)"
    exact = False

    def __init__(self, epsilon: float, bar: float | None = None):
        self.epsilon, self.bar = epsilon, bar

    def at(self, p: Tensor) -> TypicalRule:
        return TypicalRule(self.epsilon, least_typical(p, self.epsilon))

    def threshold(self, p: float, q: float) -> float:
        assert self.bar is not None, "at() says which distribution is looked at"
        return float(p > self.bar)

    def accepts(self, u: Any, p: Any, q: Any) -> Any:
        return p > self.bar

    def replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return self.bonus(p)

    def bonus(self, p: Tensor) -> Tensor:
        return one_hot(first_argmax(p), p.shape[-1])

    def never(self, p: Tensor) -> Tensor:
        """Tokens that are never written where the target's distribution is p, though p has them: (V,) bool. Neither typical nor the likeliest."""
        kept = (p > least_typical(p, self.epsilon)) | (self.bonus(p) > 0.0)
        return (p > 0.0) & ~kept

    def walk(self, block: DraftTree, index: int, row: Prefix, p: Tensor, randomness: Randomness) -> Walk:
        return _Longest(self, block, index, row, p, randomness)

    def shown(self, block: DraftTree, index: int, p: Tensor, node: int) -> Shown:
        probs = p[block.parents[index][node] + 1]
        overlap = torch.where(probs > least_typical(probs, self.epsilon), block.q[index][node], 0.0)
        return Shown(probs, overlap, (1.0 - overlap.sum()).clamp(min=0.0) * self.bonus(probs))


class _Longest(Walk):
    """Keeps, under each kept node, the typical child from which the longest typical way leads down."""

    rule: TypicalRule

    def first_accepted(self, parent: int, siblings: list[int]) -> int:
        probs = self.p[parent + 1]
        typical = [node for node in siblings if self._typical(node)]
        best = max(typical, key=self._reach, default=ROOT)
        for node in siblings:
            self.looked[node] = (self.p_token[node], self.uniform(node), float(node == best), node == best)
        if best != ROOT:
            return self.keep(best)
        self.refused, self.probs = siblings[-1], self.rule.bonus(probs)
        return ROOT

    def _typical(self, node: int) -> bool:
        return self.p_token[node] > least_typical(self.p[self.parents[node] + 1], self.rule.epsilon)

    def _reach(self, node: int) -> tuple[int, float]:
        """Tokens of the longest typical way from a typical node, itself included, and the logarithm of its probability."""
        ways = [self._reach(child) for child in children(self.parents, node) if self._typical(child)]
        length, likelihood = max(ways, default=(0, 0.0))
        return 1 + length, log(self.p_token[node]) + likelihood
