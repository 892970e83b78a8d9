"""Statistics of how two distributions differ, as computed before a draft is deployed: for studies, not for decisions."""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.verification.overlap import overlap


def compare_distributions(p: Tensor, q: Tensor) -> dict[str, Tensor]:
    """Statistics of pairs of distributions, each (...). p, q (..., V) float64, rows sum to 1.

    beta      1 - TV(p, q), in [0, 1]
    kl_pq     KL(p || q) in nats, infinite where q is 0 at a token of p; kl_qp the other way
    entropy_p, entropy_q  in nats
    agreement 1.0 where both have the same largest token, the smallest id among equals, else 0.0
    top_q     the largest probability of q
    """
    return {
        "beta": overlap(p, q).clamp(max=1.0),
        "kl_pq": _kl(p, q),
        "kl_qp": _kl(q, p),
        "entropy_p": torch.special.entr(p).sum(-1),
        "entropy_q": torch.special.entr(q).sum(-1),
        "agreement": (p.argmax(-1) == q.argmax(-1)).double(),
        "top_q": q.amax(-1),
    }


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (torch.special.xlogy(p, p) - torch.special.xlogy(p, q)).sum(-1).clamp(min=0.0)
