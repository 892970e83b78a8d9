"""Acceptance and other statistics of two known distributions: for bounds, predictions and studies, not for decisions."""

from __future__ import annotations

import torch
from torch import Tensor


def compute_overlap(p: Tensor, q: Tensor) -> Tensor:
    """Probability that a token drawn from q is accepted, beta = sum of min(p, q): (..., V) float64 -> (...) in [0, 1].

    Leviathan et al. 2023, theorem 3.5: beta = 1 - TV(p, q).
    """
    return torch.minimum(p, q).sum(-1)


def compute_drafted_probability(p: Tensor, q: Tensor) -> Tensor:
    """Probability that a token of the target's text is an accepted draft token, if one was tested there: min(1, q / p), (...).

    p, q (...) float64 are the token's probabilities. It is drafted and accepted with probability min(p, q) and occurs with
    probability p. Where a pass over several tokens rounds p to 0 at a token that was drawn, it counts as accepted iff q > 0.
    """
    return torch.where(q >= p, (q > 0.0).double(), q / p.clamp(min=torch.finfo(p.dtype).tiny))


def compute_drafted_log_ratio(p: Tensor, q: Tensor) -> Tensor:
    """log(q / p) of the probabilities that both distributions give the tokens of the target's text, (...): -inf where q is 0.

    Given the text, block verification accepts the first i draft tokens of a round with the least of 1, q1/p1, q1 q2/(p1 p2), ..
    up to i factors, where the token rule has the product of min(1, q_j/p_j).
    """
    return q.log() - p.clamp(min=torch.finfo(p.dtype).tiny).log()


def compare_distributions(p: Tensor, q: Tensor) -> dict[str, Tensor]:
    """Statistics of pairs of distributions, each (...). p, q (..., V) float64, rows sum to 1.

    ``beta`` is 1 - TV(p, q), ``kl_pq`` KL(p || q) in nats, infinite where q is 0 at a token of p; ``agreement`` is 1 where both
    have the same largest token, the smallest id among equals; ``top_q`` is the largest probability of q.
    """
    return {
        "beta": compute_overlap(p, q).clamp(max=1.0),
        "kl_pq": _compute_kl(p, q),
        "kl_qp": _compute_kl(q, p),
        "entropy_p": torch.special.entr(p).sum(-1),
        "entropy_q": torch.special.entr(q).sum(-1),
        "agreement": (p.argmax(-1) == q.argmax(-1)).double(),
        "top_q": q.amax(-1),
    }


def _compute_kl(p: Tensor, q: Tensor) -> Tensor:
    return (torch.special.xlogy(p, p) - torch.special.xlogy(p, q)).sum(-1).clamp(min=0.0)
