"""Draws by inverse CDF: the coin is an argument, the answer a pure function of law and coin."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def draw(law: Tensor, u: Tensor) -> Tensor:
    """The smallest id whose cumulative mass exceeds u times the total mass.

    law      (..., V) float64, not negative, some mass in every row; need not sum to 1
    u        (...) float64 in [0, 1)
    returns  (...) int64. Ids of mass zero are never drawn, u = 0 and u = 1 - 2**-53 included.

    A law that stands expanded for many rows is summed up once.
    """
    if law.dim() > 1 and law.numel() and not any(law.stride()[:-1]):
        return draw_each(law[(0,) * (law.dim() - 1)], u)
    return draw_each(law, u.unsqueeze(-1)).squeeze(-1)


def draw_each(law: Tensor, u: Tensor) -> Tensor:
    """``draw`` with n numbers for every law: law (..., V), u (..., n), returns (..., n) int64."""
    cumulative = law.cumsum(-1)
    total = cumulative[..., -1:].contiguous()  # searchsorted warns of strided values
    found = torch.searchsorted(cumulative, u.to(law) * total, right=True)
    last = torch.searchsorted(cumulative, total, right=False)  # guards u * total rounding up to the total
    return torch.minimum(found, last)


def rows_of(laws: Sequence[Tensor]) -> Tensor:
    """Laws (V,) one below the other, (n, V). An array that stands in all rows is expanded, not copied."""
    first = laws[0]
    if all(law is first or (law.data_ptr() == first.data_ptr() and law.stride() == first.stride()) for law in laws):
        return first.expand(len(laws), -1)
    return torch.stack(tuple(laws))
