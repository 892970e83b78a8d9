"""Block verification: how much of a chain is accepted is decided for its tokens together.

Sun et al. 2024, Block Verification Accelerates Speculative Decoding, Algorithm 2. For a chain x_1 .. x_n, where p and q are the
distributions after the draft tokens before each:

    w_0 = 1,  w_i = min(1, w_(i-1) p(x_i) / q(x_i))    probability that the first i draft tokens are accepted, given their values
    m_i = sum over x of max(0, w_i p(x) - q(x))        mass that the draft gives too little after them
    h_i = m_i / (m_i + 1 - w_i),  h_n = w_n            thresholds

Every draft token has a random number u_i. The longest beginning x_1 .. x_i with u_i < h_i is accepted. If i < n, the next token
is drawn from max(0, w_i p - q), rescaled; if i = n, from p. The text has the target's distribution, and no rule with that
property accepts more.

The length n may depend on the values drawn: whether the chain ends after x_i may be decided from x_1 .. x_i, but not from
x_(i+1). Proof, from the end backwards: P(at least i are accepted, given x_1 .. x_i) = w_i. At the end it is h_n. Before the end,
x_(i+1) adds the mean of w_(i+1), which is w_i - m_i, and the random number of position i adds (1 - w_i + m_i) h_i = m_i. Neither
depends on how many tokens follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.randomness import Prefix, Purpose, Randomness
from specviz.settings import Settings
from specviz.trace import Outcome
from specviz.verification.comparison_log import report_comparison
from specviz.verification.draft_tree import DraftTree
from specviz.verification.registry import DraftForm, RuleNeeds, refuse_unmet, register_rule
from specviz.verification.rule import RuleView
from specviz.verification.token import Check, TreeWalk, compute_acceptance_probability, draw_outcomes, gather_token_probabilities


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """The numbers of block verification for a chain of N draft tokens."""

    weights: tuple[float, ...]  # N + 1 numbers w_0 .. w_N in [0, 1]
    edges: tuple[float, ...]  # N thresholds h_1 .. h_N in [0, 1]
    left: Tensor  # (N, V): max(0, w_i p - q) after the first i draft tokens, i from 0, not rescaled
    mass: tuple[float, ...]  # N numbers, the sums of ``left``


def compute_block_weights(tokens: Sequence[int], p: Tensor, q: Tensor | None) -> BlockWeights:
    """Weights and thresholds of a chain. p (N + 1, V) after the prefix and each draft token; q (N, V), None where N is 0."""
    return _compute_weights(*gather_token_probabilities(p, q, tuple(tokens), tuple(range(-1, len(tokens) - 1))), p, q)


def _compute_weights(p_token: Sequence[float], q_token: Sequence[float], p: Tensor, q: Tensor | None) -> BlockWeights:
    """The same, where the probabilities of the draft tokens themselves are known, N each."""
    count, weights = len(p_token), [1.0]
    for p_x, q_x in zip(p_token, q_token, strict=True):
        weights.append(compute_acceptance_probability(weights[-1] * p_x, q_x))
    left = p[:0] if q is None else (p[:count] * p.new_tensor(weights[:count])[:, None]).sub_(q).clamp_(min=0.0)
    mass = left.sum(-1).tolist()
    edges = [_compute_threshold(weight, missing) for weight, missing in zip(weights[1:count], mass[1:], strict=True)]
    return BlockWeights(tuple(weights), (*edges, weights[-1])[:count], left, tuple(mass))


def _compute_threshold(weight: float, mass: float) -> float:
    """The threshold m / (m + 1 - w); 1 where p equals q and all draft tokens so far are certain to be accepted."""
    total = mass + 1.0 - weight
    return mass / total if total > 0.0 else 1.0


class BlockRule:
    """Block verification: all draft tokens of a chain are judged together. Exact; accepts at least as many as the token rule.

    All random numbers of a block are used, also those behind the last accepted draft token. In a record every accepted draft
    token has ``accepted`` True, even if its own random number lies above its threshold and only a later one lies below.
    """

    name, title = "block", "block verification"
    exact = True

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        """Raises SettingsError where a row's draft tokens are not a chain."""
        if not tree.is_chain:
            refuse_unmet(self.name, DraftForm(branches=True))
        return draw_outcomes([self.walk(tree, index, row, p[index], randomness) for index, row in enumerate(rows)])

    def walk(self, tree: DraftTree, index: int, row: Prefix, p: Tensor, randomness: Randomness) -> BlockWalk:
        return BlockWalk(self, tree, index, row, p, randomness)

    def view_node(self, tree: DraftTree, index: int, p: Tensor, node: int) -> RuleView:
        found = compute_block_weights(tree.tokens[index], p, tree.q[index])
        return RuleView(p[node], torch.minimum(found.weights[node] * p[node], tree.q[index][node]), found.left[node])


class BlockWalk(TreeWalk):
    """Algorithm 2 for one row: every draft token of the chain is checked, and the path is the longest beginning that is accepted."""

    def descend(self) -> None:
        found = _compute_weights(self.p_token, self.q_token, self.p, self.q)
        uniforms = [float(self.randomness.take(Purpose.ACCEPT, [self.row], node, node)[0]) for node in range(len(self.tokens))]
        below = [report_comparison(u < edge, u, edge) for u, edge in zip(uniforms, found.edges, strict=True)]
        accepted = max((count for count, yes in enumerate(below, start=1) if yes), default=0)
        for node, u in enumerate(uniforms):
            self.checked[node] = Check(self.p_token[node], u, found.edges[node], node < accepted)
        self.path, self.probs = list(range(accepted)), self.p[accepted]
        if accepted < len(self.tokens):
            self.rejected = accepted
            if found.mass[accepted] > 0.0:
                self.probs = found.left[accepted]


@register_rule("block", title=BlockRule.title, exact=BlockRule.exact, needs=RuleNeeds(chain=True))
def _build_block_rule(settings: Settings) -> BlockRule:
    return BlockRule()
