"""Draws by inverse CDF: the coin is an argument, the answer a pure function of law and coin."""

from __future__ import annotations

import torch
from torch import Tensor


def draw(law: Tensor, u: Tensor) -> Tensor:
    """The smallest id whose cumulative mass exceeds u times the total mass.

    law      (..., V) float64, not negative, some mass in every row; need not sum to 1
    u        (...) float64 in [0, 1)
    returns  (...) int64. Ids of mass zero are never drawn, u = 0 and u = 1 - 2**-53 included.
    """
    return draw_each(law, u.unsqueeze(-1)).squeeze(-1)


def draw_each(law: Tensor, u: Tensor) -> Tensor:
    """``draw`` with n numbers for every law: law (..., V), u (..., n), returns (..., n) int64."""
    cumulative = law.cumsum(-1)
    total = cumulative[..., -1:].contiguous()  # searchsorted warns of strided values
    found = torch.searchsorted(cumulative, u.to(law) * total, right=True)
    last = torch.searchsorted(cumulative, total, right=False)  # guards u * total rounding up to the total
    return torch.minimum(found, last)
