"""How likely a draft token is to be kept, where both distributions are known: for ceilings and bounds, no part of any decision."""

from __future__ import annotations

import torch
from torch import Tensor


def overlap(p: Tensor, q: Tensor) -> Tensor:
    """Probability that a token drawn from q is kept, beta = sum of min(p, q): (..., V) float64 -> (...) in [0, 1].

    Leviathan et al. 2023, theorem 3.5: beta = 1 - TV(p, q).
    """
    return torch.minimum(p, q).sum(-1)


def kept_chance(p: Tensor, q: Tensor, token: int) -> float:
    """Probability that this token, drawn from q (V,), is kept: min(1, p / q) at the token, in [0, 1]."""
    return min(1.0, float(p[token]) / float(q[token]))


def drafted_chance(p: Tensor, q: Tensor) -> Tensor:
    """Probability that a token of the target's text was a accepted draft token, given that a draft token was tested there: min(1, q / p), (...).

    p, q  (...) float64, the masses that both distributions give to the token that stands there. A draft token is this token and kept with
    probability min(p, q), and the token comes with p. Where a pass over a block rounds so that p is 0 at a token that was drawn,
    it counts as kept iff the draft would have said it.
    """
    return torch.where(q >= p, (q > 0.0).double(), q / p.clamp(min=torch.finfo(p.dtype).tiny))


def drafted_ratio(p: Tensor, q: Tensor) -> Tensor:
    """log(q / p) of the masses that both distributions give to the tokens of the target's text, (...): -inf where the draft excludes one.

    Given the text, block verification keeps the first i draft tokens of a round with the least of 1, q1/p1, q1 q2/(p1 p2), .. up to i
    factors, where the token rule has the product of each factor's least with 1.
    """
    return q.log() - p.clamp(min=torch.finfo(p.dtype).tiny).log()
