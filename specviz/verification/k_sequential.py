"""k-sequential selection: accept one of k tokens drawn independently from one distribution q, or draw a replacement.

SpecTr, Sun et al. 2023, Algorithm 3. The tokens x_1 .. x_k are tested in order, each accepted with probability
min(1, p(x) / (rho q(x))), until one is accepted. With

    beta(rho) = sum over x of min(q(x), p(x) / rho)        probability that a test accepts, given that those before it did not
    many(rho) = 1 + (1 - beta) + ... + (1 - beta)^(k-1)    mean number of tests

the residual is p - min(q, p / rho) many, of mass (1 - beta)^k. It is nowhere negative iff rho >= many(rho). rho*, the least such
number, lies in [1, k] and accepts most. Every rho from rho* to k is exact; below rho* the residual turns negative. With one draft
token rho* = 1, and the rule is the token rule.

The proof needs k fixed before x_1 is drawn: x_1 .. x_k must be independent draws from q, all tested with the rho of one k. If x_2
were drawn only for some values of x_1, then in rounds with k = 2 x_1 would have only those values, and would be no draw from q. k
may depend on anything drawn before x_1: the levels above, or what stands below another, finished node (docs/explanation/exactness.md).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.randomness import Prefix, Randomness
from specviz.settings import Settings
from specviz.trace import Outcome
from specviz.verification.draft_tree import ROOT, DraftTree, find_children
from specviz.verification.registry import DraftForm, RuleNeeds, refuse_unmet, register_rule
from specviz.verification.rule import RuleView
from specviz.verification.token import Check, Number, TokenRule, TreeWalk, compute_acceptance_probability

STEPS = 52  # bisections of [1, k]: to the last bit
MEMORY_MAX = 32_000_000  # bytes of distributions whose rho is remembered


def compute_accepted_mass(p: Tensor, q: Tensor, rho: float) -> Tensor:
    """min(q, p / rho), (V,): probability that one test draws and accepts each token; its sum is beta(rho)."""
    return torch.minimum(q, p / rho)


def compute_mean_tests(beta: Number, k: int) -> Number:
    """1 + (1 - beta) + ... + (1 - beta)^(k-1): mean number of tokens that are tested, in [1, k]."""
    mean = 1.0
    for _ in range(k - 1):
        mean = 1.0 + (1.0 - beta) * mean
    return mean


def compute_least_rho(p: Tensor, q: Tensor, k: int) -> float:
    """rho*: the least rho in [1, k] with rho >= mean_tests(beta(rho), k), approached from above. p, q (V,) float64.

    rho - mean_tests grows with rho. Between two neighboring ratios p / q the same tokens are accepted with all of q, so beta(rho)
    is a + b / rho there: a is the sum of their q, b that of the other tokens' p. The two neighbors are found first, then
    bisected.
    """
    between = (p > q) & (p < k * q)
    edges, order = (p[between] / q[between]).sort()
    whole, part = (torch.cat((probs.new_zeros(1), probs[between][order].cumsum(-1))) for probs in (q, p))
    whole = q[p >= k * q].sum() + whole[-1] - whole
    part = p[p <= q].sum() + part
    place = int((edges < compute_mean_tests(whole[:-1] + part[:-1] / edges, k)).sum())
    low = float(edges[place - 1]) if place else 1.0
    high = float(edges[place]) if place < len(edges) else float(k)
    a, b = float(whole[place]), float(part[place])
    if low >= compute_mean_tests(a + b / low, k):
        return low
    for _ in range(STEPS):
        if not low < (middle := (low + high) / 2) < high:
            break
        low, high = (low, middle) if middle >= compute_mean_tests(a + b / middle, k) else (middle, high)
    return high


def compute_sequential_residual(p: Tensor, q: Tensor, rho: float, k: int) -> Tensor:
    """Masses p - min(q, p / rho) mean_tests of the replacement, (V,), summing to (1 - beta)^k. Negative somewhere below rho*."""
    mass = compute_accepted_mass(p, q, rho)
    return p - mass * compute_mean_tests(float(mass.sum()), k)


class SequentialRule(TokenRule):
    """k-sequential selection among the siblings below each accepted node. Exact; on a chain it is the token rule.

    ``place`` in [0, 1] is where rho lies between rho* (accepts most) and k. Raises SettingsError for a tree whose siblings have
    different distributions, and for one that does not state ``counts_fixed``.
    """

    name, title = "k-seq", "k-sequential selection"
    exact = True

    def __init__(self, place: float = 0.0):
        assert 0.0 <= place <= 1.0, "rho lies between rho* and k"
        self.place = place
        self._known: OrderedDict[tuple[int, float], tuple[Tensor, Tensor, float]] = OrderedDict()

    def compute_rho(self, p: Tensor, q: Tensor, k: int) -> float:
        """The rho in [rho*, k] for k siblings drawn from q, (V,), where the target's distribution is p, (V,); remembered."""
        key = k, float(p @ q)
        known = self._known.get(key)
        if known is None or not (torch.equal(known[0], p) and torch.equal(known[1], q)):
            least = compute_least_rho(p, q, k)
            known = self._known[key] = p.clone(), q.clone(), least + self.place * (k - least)
            if len(self._known) > max(2, MEMORY_MAX // (16 * len(p))):
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known[2]

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        if tree.widest and not tree.counts_fixed:
            refuse_unmet(self.name, DraftForm(branches=True, counts_fixed=False))
        for parents, q in zip(tree.parents, tree.q, strict=True):
            for parent in {*parents}:
                first, *others = find_children(parents, parent)
                if not all(torch.equal(q[first], q[other]) for other in others):
                    refuse_unmet(self.name, DraftForm(branches=True, shares_q=False))
        return super().verify(rows, tree, p, randomness)

    def find_accepted(self, walk: TreeWalk, parent: int, siblings: list[int]) -> int:
        """Test all siblings against p with one rho. p becomes the residual only after the last rejection."""
        probs, q, k = walk.p[parent + 1], walk.q[siblings[0]], len(siblings)
        rho = self.compute_rho(probs, q, k)
        left = None
        for node in siblings:
            u, p_x, rho_q = walk.take_uniform(node), walk.p_token[node], rho * walk.q_token[node]
            accepted = self.accepts(u, p_x, rho_q)
            if not accepted and node == siblings[-1]:
                left = compute_sequential_residual(probs, q, rho, k).clamp_(min=0.0)
                accepted = not float(left.sum()) > 0.0  # an empty residual: a rejection has probability 0
            walk.checked[node] = Check(p_x, u, compute_acceptance_probability(p_x, rho_q), accepted)
            if accepted:
                return walk.accept(node)
            walk.rejected = node
        walk.probs = left
        return ROOT

    def view_node(self, tree: DraftTree, index: int, p: Tensor, node: int) -> RuleView:
        parent, q = tree.parents[index][node], tree.q[index][node]
        probs, k = p[parent + 1], len(find_children(tree.parents[index], parent))
        rho = self.compute_rho(probs, q, k)
        return RuleView(
            probs, compute_accepted_mass(probs, q, rho), compute_sequential_residual(probs, q, rho, k).clamp_(min=0.0)
        )


@register_rule("k-seq", title=SequentialRule.title, exact=SequentialRule.exact, needs=RuleNeeds(fixed_counts=True, shared_q=True))
def _build_k_sequential_rule(settings: Settings) -> SequentialRule:
    return SequentialRule()
