"""Logits -> distribution. One function for p, for q and for the target-only baseline; what it returns *is* the distribution that is kept.

Everything is float64. The order is temperature, top-k, top-p, min-p, each on the renormalised survivors of the one before,
as in common practice (Holtzman et al. 2020 for top-p; Nguyen et al. 2024 for min-p).

Ties at the edge of a cut are settled once, here: among equally probable tokens the smaller id comes first. So p and q cut
alike, and top-k keeps exactly k tokens.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.errors import ModelError
from specviz.settings import Settings


def warp(logits: Tensor, settings: Settings) -> Tensor:
    """The distribution of the next token.

    logits   (..., V) any float dtype; -inf means impossible; at least one entry per row is finite
    returns  (..., V) float64, rows sum to 1 up to rounding, on the CPU where the device has no float64 (mps)

    Temperature 0 is the one-hot distribution on the largest logit, the smallest id among equals.

    Raises ModelError where a row has NaN, +inf or nothing finite: a rule that met such a distribution would keep every draft token.
    """
    if logits.device.type == "mps":
        logits = logits.cpu()
    if settings.temperature == 1.0:  # the same numbers in fewer steps
        probs = torch.softmax(logits, -1, dtype=torch.float64)
        _refuse_unless_finite(probs[..., 0], logits)  # one number out of range makes its whole row NaN
    else:
        largest = logits.amax(-1, keepdim=True)
        _refuse_unless_finite(largest.double(), logits)
        if settings.temperature == 0.0:
            return one_hot(first_argmax(logits), logits.shape[-1])
        probs = torch.softmax((logits.double() - largest.double()) / settings.temperature, -1)
    if settings.top_k is not None and settings.top_k < probs.shape[-1]:
        probs = _keep(probs, _first_k(probs, settings.top_k))
    if settings.top_p is not None and settings.top_p < 1.0:
        probs = _keep(probs, _nucleus(probs, settings.top_p))
    if settings.min_p is not None:
        probs = _keep(probs, probs >= settings.min_p * probs.amax(-1, keepdim=True))
    return probs


def _refuse_unless_finite(found: Tensor, logits: Tensor) -> None:
    """found: numbers made of the logits, of which at least one is not finite where a logit is not that must be."""
    if not math.isfinite(float(found.sum())):
        raise ModelError(f"The model's logits are not finite (dtype {str(logits.dtype).removeprefix('torch.')}): try float32.")


def widened(probs: Tensor, vocabulary: int) -> Tensor:
    """A distribution over the first v ids as one over all of them: (..., v) -> (..., V); ids that its model lacks are impossible."""
    return F.pad(probs, (0, vocabulary - probs.shape[-1])) if probs.shape[-1] < vocabulary else probs


def first_argmax(values: Tensor) -> Tensor:
    """Smallest id of the largest entry, (...,) int64. torch.argmax leaves the choice among equals open."""
    return ((values == values.amax(-1, keepdim=True)).cumsum(-1) == 0).sum(-1)


def one_hot(ids: Tensor, vocabulary: int) -> Tensor:
    """The distribution that is certain of one token, (..., V) float64."""
    probs = torch.zeros(*ids.shape, vocabulary, dtype=torch.float64, device=ids.device)
    return probs.scatter_(-1, ids.unsqueeze(-1), 1.0)


def _keep(probs: Tensor, kept: Tensor) -> Tensor:
    probs = torch.where(kept, probs, 0.0)
    return probs / probs.sum(-1, keepdim=True)


def _first_k(probs: Tensor, k: int) -> Tensor:
    """Mask of the k most probable tokens, smaller ids first among equals."""
    edge = probs.topk(k, -1).values[..., -1:]
    above, at = probs > edge, probs == edge
    return above | (at & (at.cumsum(-1) <= k - above.sum(-1, keepdim=True)))


def _nucleus(probs: Tensor, mass: float) -> Tensor:
    """Mask of the fewest tokens, most probable first, whose probabilities reach ``mass``; never empty."""
    ordered, ids = torch.sort(probs, dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = before < mass
    kept[..., 0] = True
    return torch.zeros_like(kept).scatter_(-1, ids, kept)
