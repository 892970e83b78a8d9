"""Logits -> law. One function for p, for q and for the target-only baseline; what it returns *is* the law that is kept.

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
    """The law of the next token.

    logits   (..., V) any float dtype; -inf means impossible; at least one entry per row is finite
    returns  (..., V) float64, rows sum to 1 up to rounding, on the CPU where the device has no float64 (mps)

    Temperature 0 is the one-hot law on the largest logit, the smallest id among equals.

    Raises ModelError where a row has NaN, +inf or nothing finite: a rule that met such a law would keep every guess.
    """
    if logits.device.type == "mps":
        logits = logits.cpu()
    if settings.temperature == 1.0:  # the same numbers in fewer steps
        law = torch.softmax(logits, -1, dtype=torch.float64)
        _refuse_unless_finite(law[..., 0], logits)  # one number out of range makes its whole row NaN
    else:
        largest = logits.amax(-1, keepdim=True)
        _refuse_unless_finite(largest.double(), logits)
        if settings.temperature == 0.0:
            return one_hot(first_argmax(logits), logits.shape[-1])
        law = torch.softmax((logits.double() - largest.double()) / settings.temperature, -1)
    if settings.top_k is not None and settings.top_k < law.shape[-1]:
        law = _keep(law, _first_k(law, settings.top_k))
    if settings.top_p is not None and settings.top_p < 1.0:
        law = _keep(law, _nucleus(law, settings.top_p))
    if settings.min_p is not None:
        law = _keep(law, law >= settings.min_p * law.amax(-1, keepdim=True))
    return law


def _refuse_unless_finite(found: Tensor, logits: Tensor) -> None:
    """found: numbers made of the logits, of which at least one is not finite where a logit is not that must be."""
    if not math.isfinite(float(found.sum())):
        raise ModelError(f"The model's logits are not finite (dtype {str(logits.dtype).removeprefix('torch.')}): try float32.")


def widened(law: Tensor, vocabulary: int) -> Tensor:
    """A law over the first v ids as one over all of them: (..., v) -> (..., V); ids that its model lacks are impossible."""
    return F.pad(law, (0, vocabulary - law.shape[-1])) if law.shape[-1] < vocabulary else law


def first_argmax(values: Tensor) -> Tensor:
    """Smallest id of the largest entry, (...,) int64. torch.argmax leaves the choice among equals open."""
    return ((values == values.amax(-1, keepdim=True)).cumsum(-1) == 0).sum(-1)


def one_hot(ids: Tensor, vocabulary: int) -> Tensor:
    """The law that is certain of one token, (..., V) float64."""
    law = torch.zeros(*ids.shape, vocabulary, dtype=torch.float64, device=ids.device)
    return law.scatter_(-1, ids.unsqueeze(-1), 1.0)


def _keep(law: Tensor, kept: Tensor) -> Tensor:
    law = torch.where(kept, law, 0.0)
    return law / law.sum(-1, keepdim=True)


def _first_k(law: Tensor, k: int) -> Tensor:
    """Mask of the k most probable tokens, smaller ids first among equals."""
    edge = law.topk(k, -1).values[..., -1:]
    above, at = law > edge, law == edge
    return above | (at & (at.cumsum(-1) <= k - above.sum(-1, keepdim=True)))


def _nucleus(law: Tensor, mass: float) -> Tensor:
    """Mask of the fewest tokens, most probable first, whose probabilities reach ``mass``; never empty."""
    ordered, ids = torch.sort(law, dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = before < mass
    kept[..., 0] = True
    return torch.zeros_like(kept).scatter_(-1, ids, kept)
