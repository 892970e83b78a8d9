"""Draw tokens by inverse CDF: a pure function of the distribution and a random number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.verification.comparison_log import thread_state


def draw_tokens(probs: Tensor, u: Tensor) -> Tensor:
    """The smallest id whose cumulative mass exceeds u times the total mass, (...) int64. Ids of mass 0 are never drawn.

    probs (..., V) float64 have some mass in every row and need not sum to 1; u (...) float64 in [0, 1). A distribution that is
    expanded for many rows is summed only once.
    """
    if probs.dim() > 1 and probs.numel() and not any(probs.stride()[:-1]):
        return draw_many(probs[(0,) * (probs.dim() - 1)], u)
    return draw_many(probs, u.unsqueeze(-1)).squeeze(-1)


def draw_many(probs: Tensor, u: Tensor) -> Tensor:
    """``draw`` with n random numbers for each distribution: probs (..., V), u (..., n), returns (..., n) int64."""
    found, cumulative = invert_cdf(probs, u)
    if thread_state.listener is not None:
        thread_state.listener.on_draw(u, cumulative, found)
    return found


def invert_cdf(probs: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """``draw_many`` in tensor operations alone, and the cumulative masses (..., V) that it compared with."""
    cumulative = probs.cumsum(-1)
    total = cumulative[..., -1:].contiguous()  # searchsorted warns of strided values
    found = torch.searchsorted(cumulative, u.to(probs) * total, right=True)
    last = torch.searchsorted(cumulative, total, right=False)  # guards u * total rounding up to the total
    return torch.minimum(found, last), cumulative


def draw_in_rows(probs: Tensor, rows: Tensor, u: Tensor) -> Tensor:
    """One token for each number: ``draw_many`` of a ragged batch.

    Args:
        probs: (g, V) float64, as in ``draw_tokens``.
        rows: (n,) int64, from which of the distributions each token is drawn.
        u: (n,) float64 in [0, 1).

    Returns:
        (n,) int64. The comparisons reach no listener.
    """
    vocabulary = probs.shape[-1]
    cumulative = probs.cumsum(-1)
    total = cumulative[:, -1:].contiguous()
    last = torch.searchsorted(cumulative, total, right=False)[:, 0]
    if len(probs) == 1:
        return torch.minimum(torch.searchsorted(cumulative[0], u * total[0], right=True), last)
    goal, flat, begin = u * total[rows, 0], cumulative.flatten(), rows * vocabulary - 1
    found = torch.zeros_like(rows)  # how many cumulative masses are known to be at most the goal
    for bit in reversed(range(vocabulary.bit_length())):
        more = found + (1 << bit)
        is_below = (flat[begin + more.clamp(max=vocabulary)] <= goal) & (more <= vocabulary)
        found = torch.where(is_below, more, found)
    return torch.minimum(found, last[rows])


def stack_rows(distributions: Sequence[Tensor]) -> Tensor:
    """Stack distributions (V,) as rows, (n, V). An array that is in every row is expanded, not copied."""
    first = distributions[0]
    if all(
        probs is first or (probs.data_ptr() == first.data_ptr() and probs.stride() == first.stride()) for probs in distributions
    ):
        return first.expand(len(distributions), -1)
    return torch.stack(tuple(distributions))
