"""Block verification: how much of a chain is accepted is decided for its tokens together.

Sun et al. 2024, Block Verification Accelerates Speculative Decoding, Algorithm 2. For a chain x_1 .. x_n, where p and q are the
distributions after the draft tokens before each:

    w_0 = 1,  w_i = min(1, w_(i-1) p(x_i) / q(x_i))       probability that the first i draft tokens are accepted, given their
    values m_i = sum over x of max(0, w_i p(x) - q(x))            mass that the draft gives too little after them h_i = m_i / (m_i
    + 1 - w_i),  h_n = w_n                thresholds

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
from typing import NamedTuple

import torch
from torch import Tensor

from specviz.errors import SettingsError
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Decision, Ending, Outcome
from specviz.verification.comparisons import judged
from specviz.verification.draft_tree import DraftTree
from specviz.verification.draw import draw, rows_of
from specviz.verification.token_rule import Shown, acceptance_probability, at_tokens

ALLOWED = "token, k-seq or typical where the proposals are a tree: block judges chains"


@dataclass(frozen=True, slots=True)
class Weighed:
    """The numbers of block verification for a chain of N draft tokens.

    weights  N + 1 numbers w_0 .. w_N in [0, 1]
    edges    N thresholds h_1 .. h_N in [0, 1]
    left     (N, V): max(0, w_i p - q) after the first i draft tokens, i from 0, not rescaled
    mass     N numbers, the sums of ``left``
    p, q     N numbers each: target and draft probability of the draft tokens
    """

    weights: tuple[float, ...]
    edges: tuple[float, ...]
    left: Tensor
    mass: tuple[float, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]


def weighed(tokens: Sequence[int], p: Tensor, q: Tensor | None) -> Weighed:
    """Weights and thresholds of a chain. p (N + 1, V) after the prefix and each draft token; q (N, V), None where N is 0."""
    count, weights = len(tokens), [1.0]
    p_token, q_token = at_tokens(p, q, tuple(tokens), tuple(range(-1, count - 1)))
    for p_x, q_x in zip(p_token, q_token, strict=True):
        weights.append(acceptance_probability(weights[-1] * p_x, q_x))
    left = p[:0] if q is None else (p[:count] * p.new_tensor(weights[:count])[:, None]).sub_(q).clamp_(min=0.0)
    mass = left.sum(-1).tolist()
    edges = [_edge(weight, missing) for weight, missing in zip(weights[1:count], mass[1:], strict=True)]
    return Weighed(tuple(weights), (*edges, weights[-1])[:count], left, tuple(mass), tuple(p_token), tuple(q_token))


def _edge(weight: float, mass: float) -> float:
    """m / (m + 1 - w); 1 where p equals q and all draft tokens so far are certain to be accepted."""
    total = mass + 1.0 - weight
    return mass / total if total > 0.0 else 1.0


class Judged(NamedTuple):
    """One row: decisions, number of accepted draft tokens, and the distribution (V,) and random number of the next token."""

    decisions: tuple[Decision, ...]
    accepted: int
    probs: Tensor  # not rescaled
    u: float

    def outcome(self, token: int) -> Outcome:
        kind = "bonus" if self.accepted == len(self.decisions) else "residual"
        return Outcome(self.decisions, tuple(range(self.accepted)), Ending(kind, token, self.u))


class BlockRule:
    """Block verification: all draft tokens of a chain are judged together. Exact; accepts at least as many as the token rule.

    All random numbers of a block are used, also those behind the last accepted draft token, so no later round may use them again.
    In a record every accepted draft token has ``accepted`` True, even if its own random number lies above its threshold and only
    a later one lies below.
    """

    name, title = "block", "block verification"
    exact = True

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        """Raises SettingsError where a row's draft tokens are not a chain."""
        if not tree.is_chain:
            raise SettingsError("rule", self.name, ALLOWED)
        verdicts = [self.judge(row, tree, index, p[index], randomness) for index, row in enumerate(rows)]
        uniforms = torch.tensor([one.u for one in verdicts], dtype=torch.float64)
        tokens = draw(rows_of([one.probs for one in verdicts]), uniforms).tolist()
        return tuple(one.outcome(token) for one, token in zip(verdicts, tokens, strict=True))

    def shown(self, tree: DraftTree, index: int, p: Tensor, node: int) -> Shown:
        found = weighed(tree.tokens[index], p, tree.q[index])
        return Shown(p[node], torch.minimum(found.weights[node] * p[node], tree.q[index][node]), found.left[node])

    def judge(self, row: Prefix, tree: DraftTree, index: int, p: Tensor, randomness: Randomness) -> Judged:
        """Algorithm 2 for row ``index``, up to the draw of its last token. p (N + 1, V)."""
        tokens, q = tree.tokens[index], tree.q[index]
        found = weighed(tokens, p, q)
        uniforms = [float(randomness.take(Purpose.ACCEPT, [row], node, node)[0]) for node in range(len(tokens))]
        below = [judged(u < edge, u, edge) for u, edge in zip(uniforms, found.edges, strict=True)]
        accepted = max((count for count, yes in enumerate(below, start=1) if yes), default=0)
        whole = accepted == len(tokens)
        probs = p[accepted] if whole or not found.mass[accepted] > 0.0 else found.left[accepted]
        u = float(randomness.take(Purpose.BONUS if whole else Purpose.RESIDUAL, [row], accepted, accepted)[0])
        decisions = tuple(
            Decision(
                token=token,
                parent=node - 1,
                source=tree.source,
                q=found.q[node],
                p=found.p[node],
                u_draft=tree.u_draft[index][node],
                u=uniforms[node],
                threshold=found.edges[node],
                accepted=node < accepted,
            )
            for node, token in enumerate(tokens)
        )
        return Judged(decisions, accepted, probs, u)
