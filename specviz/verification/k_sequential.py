"""k-sequential selection: one of k tokens drawn independently from one distribution q, or a replacement. SpecTr, Sun et al. 2023, Algorithm 3.

Each of x_1 .. x_k is kept with probability min(1, p(x) / (rho q(x))), one after the other, until one is. With

    beta(rho) = sum over x of min(q(x), p(x) / rho)        how often one of them is kept, given that those before it were not
    many(rho) = 1 + (1 - beta) + ... + (1 - beta)^(k-1)    how many are tested on average

what they leave for the replacement is p - min(q, p / rho) many, of mass (1 - beta)^k. It is nowhere negative iff rho >= many(rho);
rho*, the least such number, lies in [1, k] and keeps most. Any rho from rho* to k writes p; below rho* the residual turns negative.
With one draft rho* = 1, and this is the token rule.

The proof needs k fixed before x_1 is drawn: it takes x_1 .. x_k for independent draws from q, all tested with the rho of one k. Were
x_2 drawn only where x_1 is one of some tokens, then among the rounds with k = 2 x_1 would be one of those and no draw from q. What
k may depend on is anything drawn before x_1: the levels above, or below another node that is finished (docs/exactness.md).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.errors import SettingsError
from specviz.randomness import Prefix, Randomness
from specviz.trace import Outcome
from specviz.verification.draft_tree import ROOT, DraftTree, children
from specviz.verification.token_rule import Number, Shown, TokenRule, Walk, threshold

STEPS = 52  # bisections of [1, k]: to the last bit
REMEMBERED = 32_000_000  # bytes of distributions whose rho is kept
ALLOWED = "token or typical where siblings differ in their distributions: k-seq needs independent drafts from one distribution"
COUNTS = (
    "token or typical where the number of tokens at a node may depend on the values drawn there: k-seq needs it fixed before the "
    "first is drawn, and a proposer whose numbers are says so with counts_fixed=True in its block"
)


def accepted_mass(p: Tensor, q: Tensor, rho: float) -> Tensor:
    """min(q, p / rho), (V,): how much of each token one draft keeps; its sum is beta(rho)."""
    return torch.minimum(q, p / rho)


def tested(beta: Number, k: int) -> Number:
    """1 + (1 - beta) + ... + (1 - beta)^(k-1): the mean number of drafts that are tested, in [1, k]."""
    mean = 1.0
    for _ in range(k - 1):
        mean = 1.0 + (1.0 - beta) * mean
    return mean


def least_rho(p: Tensor, q: Tensor, k: int) -> float:
    """rho*: the least rho in [1, k] with rho >= tested(beta(rho), k), from above.

    p, q (V,) float64, rows sum to 1; k at least 1. rho - tested grows with rho times beta. Between two neighbours among the ratios
    p / q the same tokens are kept with all of q, so beta(rho) is a + b / rho there, a the sum of their q and b that of the others' p:
    the neighbours are looked for first, and bisection does the rest with two numbers.
    """
    between = (p > q) & (p < k * q)
    edges, order = (p[between] / q[between]).sort()
    whole, part = (torch.cat((probs.new_zeros(1), probs[between][order].cumsum(-1))) for probs in (q, p))
    whole = q[p >= k * q].sum() + whole[-1] - whole
    part = p[p <= q].sum() + part
    place = int((edges < tested(whole[:-1] + part[:-1] / edges, k)).sum())
    low = float(edges[place - 1]) if place else 1.0
    high = float(edges[place]) if place < len(edges) else float(k)
    a, b = float(whole[place]), float(part[place])
    if low >= tested(a + b / low, k):
        return low
    for _ in range(STEPS):
        if not low < (middle := (low + high) / 2) < high:
            break
        low, high = (low, middle) if middle >= tested(a + b / middle, k) else (middle, high)
    return high


def left_over(p: Tensor, q: Tensor, rho: float, k: int) -> Tensor:
    """p - min(q, p / rho) tested, (V,): masses of the replacement, summing to (1 - beta)^k. Negative somewhere below rho*."""
    share = accepted_mass(p, q, rho)
    return p - share * tested(float(share.sum()), k)


class SequentialRule(TokenRule):
    """k-sequential selection among the siblings under each kept node. Exact; on a chain it is the token rule.

    place  0 to 1: where rho stands between rho* (0, keeps most) and k (1)

    Raises SettingsError for a block that does not say that its numbers of siblings were fixed before the first was drawn, whatever
    tree luck has made of it, and where siblings were not drawn from one and the same distribution.
    """

    name, title = "k-seq", "k-sequential selection"
    exact = True

    def __init__(self, place: float = 0.0):
        assert 0.0 <= place <= 1.0, "rho lies between rho* and k"
        self.place = place
        self._known: OrderedDict[tuple[int, float], tuple[Tensor, Tensor, float]] = OrderedDict()

    def rho(self, p: Tensor, q: Tensor, k: int) -> float:
        """The rho that k siblings drawn from q, (V,), are tested with where the target's distribution is p, (V,); in [rho*, k].

        Many draws of one prompt meet few pairs of distributions, so the latest are remembered: looked up by one number, told apart by all.
        """
        key = k, float(p @ q)
        known = self._known.get(key)
        if known is None or not (torch.equal(known[0], p) and torch.equal(known[1], q)):
            least = least_rho(p, q, k)
            known = self._known[key] = p.clone(), q.clone(), least + self.place * (k - least)
            if len(self._known) > max(2, REMEMBERED // (16 * len(p))):
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known[2]

    def verify(self, rows: Sequence[Prefix], block: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        if block.widest and not block.counts_fixed:
            raise SettingsError("rule", self.name, COUNTS)
        for parents, q in zip(block.parents, block.q, strict=True):
            for parent in {*parents}:
                first, *others = children(parents, parent)
                if not all(torch.equal(q[first], q[other]) for other in others):
                    raise SettingsError("rule", self.name, ALLOWED)
        return super().verify(rows, block, p, randomness)

    def walk(self, block: DraftTree, index: int, row: Prefix, p: Tensor, randomness: Randomness) -> Walk:
        return _Sequence(self, block, index, row, p, randomness)

    def shown(self, block: DraftTree, index: int, p: Tensor, node: int) -> Shown:
        parent, q = block.parents[index][node], block.q[index][node]
        probs, k = p[parent + 1], len(children(block.parents[index], parent))
        rho = self.rho(probs, q, k)
        return Shown(probs, accepted_mass(probs, q, rho), left_over(probs, q, rho, k).clamp_(min=0.0))


class _Sequence(Walk):
    rule: SequentialRule

    def first_accepted(self, parent: int, siblings: list[int]) -> int:
        probs, q, k = self.p[parent + 1], self.q[siblings[0]], len(siblings)
        rho = self.rule.rho(probs, q, k)
        left = None
        for node in siblings:
            u, met, claimed = self.uniform(node), self.p_token[node], rho * self.q_token[node]
            kept = self.rule.accepts(u, met, claimed)
            if not kept and node == siblings[-1]:
                left = left_over(probs, q, rho, k).clamp_(min=0.0)
                kept = not float(left.sum()) > 0.0  # nothing is left: a refusal has probability 0
            self.looked[node] = (met, u, threshold(met, claimed), kept)
            if kept:
                return self.keep(node)
            self.refused = node
        self.probs = left
        return ROOT
