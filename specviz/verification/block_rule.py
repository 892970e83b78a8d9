"""Block verification: how much of a chain is kept is decided about its tokens together.

Sun et al. 2024, Block Verification Accelerates Speculative Decoding, Algorithm 2. For a chain x_1 .. x_n, with p and q the distributions
after the draft tokens before each,

    w_0 = 1,  w_i = min(1, w_(i-1) p(x_i) / q(x_i))       how likely the first i draft tokens are to be kept, given what they are
    m_i = sum over x of max(0, w_i p(x) - q(x))            what the draft gives too little after them
    h_i = m_i / (m_i + 1 - w_i),  h_n = w_n                the thresholds

Every draft token has a random number; the longest beginning whose last random number lies below its threshold is kept. After i < n kept ones the next
token comes from max(0, w_i p - q), rescaled; after all of them from p. The distribution is p's, and no rule that keeps it keeps more.

The length n may depend on the values drawn: whether the chain ends after x_i may be decided from x_1 .. x_i, not from x_(i+1). From
the end backwards, P(at least i are kept, given x_1 .. x_i) = w_i: at the end it is h_n; before it, x_(i+1) adds the mean of
w_(i+1), which is w_i - m_i, and the random number of place i adds (1 - w_i + m_i) h_i = m_i. Neither asks how long the rest is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.errors import SettingsError
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Decision, Ending, Outcome
from specviz.verification.comparisons import judged
from specviz.verification.draft_tree import DraftTree
from specviz.verification.draw import draw, rows_of
from specviz.verification.token_rule import Shown, at_tokens, threshold

ALLOWED = "token, k-seq or typical where the proposals are a tree: block judges chains"


@dataclass(frozen=True, slots=True)
class Weighed:
    """A chain of N draft tokens as block verification sees it.

    weights  N + 1 numbers w_0 .. w_N in [0, 1]; edges  N thresholds h_1 .. h_N in [0, 1]
    left     (N, V): max(0, w_i p - q) after the first i draft tokens, i from 0, not rescaled; mass  N numbers, its sums
    p, q     N numbers each: what target and draft give the draft tokens
    """

    weights: tuple[float, ...]
    edges: tuple[float, ...]
    left: Tensor
    mass: tuple[float, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]


def weighed(tokens: Sequence[int], p: Tensor, q: Tensor | None) -> Weighed:
    """p (N + 1, V) after the prefix and after each draft token, q (N, V) what each was drawn from, None where N is 0."""
    count, weights = len(tokens), [1.0]
    p_token, q_token = at_tokens(p, q, tuple(tokens), tuple(range(-1, count - 1)))
    for wanted, claimed in zip(p_token, q_token, strict=True):
        weights.append(threshold(weights[-1] * wanted, claimed))
    left = p[:0] if q is None else (p[:count] * p.new_tensor(weights[:count])[:, None]).sub_(q).clamp_(min=0.0)
    mass = left.sum(-1).tolist()
    edges = [_edge(weight, missing) for weight, missing in zip(weights[1:count], mass[1:], strict=True)]
    return Weighed(tuple(weights), (*edges, weights[-1])[:count], left, tuple(mass), tuple(p_token), tuple(q_token))


def _edge(weight: float, mass: float) -> float:
    """m / (m + 1 - w); 1 where both distributions agree and every draft token so far is certain to be kept."""
    whole = mass + 1.0 - weight
    return mass / whole if whole > 0.0 else 1.0


class BlockRule:
    """Block verification: all draft tokens of a chain are judged together. Exact, and never fewer tokens than token by token.

    All random numbers of a block are looked at, also behind the last accepted draft token: so no later round may meet them again. A record has
    ``accepted`` for every draft token that is kept, also for one whose own random number lies above its threshold and a later one's does not.
    """

    name, title = "block", "block verification"
    exact = True

    def verify(self, rows: Sequence[Prefix], block: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        """Raises SettingsError where a row's proposals are no chain."""
        if not block.is_chain:
            raise SettingsError("rule", self.name, ALLOWED)
        judged = [self._judged(row, block, index, p[index], randomness) for index, row in enumerate(rows)]
        distributions, uniforms = rows_of([probs for _, probs, _ in judged]), [u for _, _, u in judged]
        tokens = draw(distributions, torch.tensor(uniforms, dtype=torch.float64)).tolist()
        return tuple(
            Outcome(decisions, tuple(range(kept)), Ending("bonus" if kept == len(decisions) else "residual", token, u))
            for ((decisions, kept), _, u), token in zip(judged, tokens, strict=True)
        )

    def shown(self, block: DraftTree, index: int, p: Tensor, node: int) -> Shown:
        found = weighed(block.tokens[index], p, block.q[index])
        return Shown(p[node], torch.minimum(found.weights[node] * p[node], block.q[index][node]), found.left[node])

    def _judged(
        self, row: Prefix, block: DraftTree, index: int, p: Tensor, randomness: Randomness
    ) -> tuple[tuple[tuple[Decision, ...], int], Tensor, float]:
        """The decisions and how many draft tokens are kept; the distribution of the token after them, (V,), not rescaled; the number that draws it."""
        tokens, q = block.tokens[index], block.q[index]
        found = weighed(tokens, p, q)
        uniforms = [float(randomness.take(Purpose.ACCEPT, [row], node, node)[0]) for node in range(len(tokens))]
        below = [judged(u < edge, u, edge) for u, edge in zip(uniforms, found.edges, strict=True)]
        kept = max((count for count, yes in enumerate(below, start=1) if yes), default=0)
        whole = kept == len(tokens)
        probs = p[kept] if whole or not found.mass[kept] > 0.0 else found.left[kept]
        u = float(randomness.take(Purpose.BONUS if whole else Purpose.RESIDUAL, [row], kept, kept)[0])
        decisions = tuple(
            Decision(
                token=x,
                parent=node - 1,
                source=block.source,
                q=found.q[node],
                p=found.p[node],
                u_draft=block.u_draft[index][node],
                u=uniforms[node],
                threshold=found.edges[node],
                accepted=node < kept,
            )
            for node, x in enumerate(tokens)
        )
        return (decisions, kept), probs, u
