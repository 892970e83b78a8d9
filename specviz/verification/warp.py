"""Logits -> distribution: temperature, top-k, top-p, min-p, further warpers. One function for p, q and target-only sampling.

An exact rule keeps the warped distribution. Everything is float64. Each warper is applied to the renormalized survivors of the
one before (Holtzman et al. 2020 for top-p; Nguyen et al. 2024 for min-p). Among equally probable tokens at a cut the smaller id
comes first, so p and q are cut alike, and top-k keeps exactly k tokens.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.errors import ModelError
from specviz.settings import Settings
from specviz.verification.warpers import find_warpers, register_warper

NUCLEUS = 4096  # tokens that are sorted at first for top-p


def warp(logits: Tensor, settings: Settings) -> Tensor:
    """The distribution of the next token, (..., V) float64, rows sum to 1 up to rounding; for mps on the CPU.

    logits (..., V) may have any float dtype; -inf means impossible. Temperature 0 gives the one-hot distribution of the largest
    logit, the smallest id among equals; nothing is cut then. Raises ModelError where a row has NaN, +inf or no finite entry: a
    rule given such a distribution would accept every draft token. Raises SettingsError for an unknown warper.
    """
    if logits.device.type == "mps":
        logits = logits.cpu()
    probs, sample = warp_tensors(logits, settings)
    if not math.isfinite(float(sample.sum())):
        raise ModelError(describe_not_finite(logits.dtype))
    if settings.warpers and not bool(((probs >= 0.0) & probs.isfinite()).all()):
        raise ModelError(f"The warpers {settings.warpers!r} returned numbers that are no distribution.")
    return probs


def describe_not_finite(dtype: torch.dtype) -> str:
    """A sentence on logits that are no numbers, and what to try in this number type."""
    name = str(dtype).removeprefix("torch.")
    way = "Try --dtype float32" if dtype in (torch.float16, torch.bfloat16) else "Its weights or activations overflow"
    return f"A model of the pair gives logits that are not finite in {name}. {way}."


def warp_tensors(logits: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    """``warp`` in tensor operations alone, and the numbers that show whether the logits could be used.

    Returns (..., V) float64 as ``warp`` returns it, and (...) float64: finite where the row's logits could be used.
    """
    if settings.temperature == 1.0:  # the same numbers in fewer steps
        probs = torch.softmax(logits, -1, dtype=torch.float64)
        sample = probs[..., 0]  # one logit out of range makes its whole row NaN
    else:
        largest = logits.amax(-1, keepdim=True).double()
        sample = largest[..., 0]
        if settings.temperature == 0.0:
            largest_id = find_first_argmax(logits).clamp(max=logits.shape[-1] - 1)  # among NaN there is none
            return build_one_hot(largest_id, logits.shape[-1]), sample
        probs = torch.softmax((logits.double() - largest) / settings.temperature, -1)
    if settings.top_k is not None:
        probs = keep_top_k(probs, settings.top_k)
    if settings.top_p is not None:
        probs = keep_top_p(probs, settings.top_p)
    if settings.min_p is not None:
        probs = keep_min_p(probs, settings.min_p)
    if settings.warpers:
        for apply, value in find_warpers(settings.warpers):
            probs = apply(probs, value)
            probs = probs / probs.sum(-1, keepdim=True)
    return probs, sample


@register_warper("top-k", title="the k most probable tokens", setting="top_k")
def keep_top_k(probs: Tensor, k: float) -> Tensor:
    """The k most probable tokens, rescaled; smaller ids first among equals."""
    return _keep_only(probs, _mask_heaviest(probs, int(k))) if k < probs.shape[-1] else probs


@register_warper("top-p", title="the fewest tokens that reach a total probability", setting="top_p")
def keep_top_p(probs: Tensor, mass: float) -> Tensor:
    """The fewest tokens, most probable first, whose probabilities reach ``mass``, rescaled."""
    return _keep_only(probs, _mask_nucleus(probs, mass)) if mass < 1.0 else probs


@register_warper("min-p", title="tokens near the largest probability", setting="min_p")
def keep_min_p(probs: Tensor, least: float) -> Tensor:
    """Tokens of at least ``least`` times the largest probability, rescaled."""
    return _keep_only(probs, probs >= least * probs.amax(-1, keepdim=True))


def pad_vocabulary(probs: Tensor, vocabulary: int) -> Tensor:
    """Pad a distribution over the first v ids to all of them: (..., v) -> (..., V). The added ids have probability 0."""
    return F.pad(probs, (0, vocabulary - probs.shape[-1])) if probs.shape[-1] < vocabulary else probs


def find_first_argmax(values: Tensor) -> Tensor:
    """Smallest id of the largest entry, (...,) int64. torch.argmax does not define the choice among equals."""
    return ((values == values.amax(-1, keepdim=True)).cumsum(-1) == 0).sum(-1)


def build_one_hot(ids: Tensor, vocabulary: int) -> Tensor:
    """The distribution with all its mass on one token, (..., V) float64."""
    probs = torch.zeros(*ids.shape, vocabulary, dtype=torch.float64, device=ids.device)
    return probs.scatter_(-1, ids.unsqueeze(-1), 1.0)


def _keep_only(probs: Tensor, mask: Tensor) -> Tensor:
    """The tokens of a mask, rescaled to sum to 1."""
    probs = torch.where(mask, probs, 0.0)
    return probs / probs.sum(-1, keepdim=True)


def _mask_heaviest(probs: Tensor, k: int) -> Tensor:
    """Mask of the k most probable tokens, smaller ids first among equals."""
    return _mask_down_to(probs, probs.topk(k, -1).values[..., -1:], k)


def _mask_down_to(probs: Tensor, edge: Tensor, k: Tensor | int) -> Tensor:
    """Mask of k tokens (..., 1): those above ``edge`` (..., 1), and of those at it the smaller ids."""
    above, at = probs > edge, probs == edge
    return above | (at & (at.cumsum(-1) <= k - above.sum(-1, keepdim=True)))


def _mask_nucleus(probs: Tensor, mass: float) -> Tensor:
    """Mask of the fewest tokens, most probable first, whose probabilities reach ``mass``; never empty.

    On a CPU only the heaviest tokens are sorted, as many as reach the mass: sorting a large vocabulary takes longer than a pass.
    """
    vocabulary = probs.shape[-1]
    count = min(vocabulary, NUCLEUS) if probs.is_cpu else vocabulary  # a recorded graph cannot ask how many are enough
    while True:
        ordered = probs.topk(count, -1).values if count < vocabulary else probs.sort(-1, descending=True).values
        before = ordered.cumsum(-1) - ordered
        if count == vocabulary or bool((before[..., -1] >= mass).all()):
            break
        count = min(vocabulary, 8 * count)
    sizes = (before < mass).sum(-1, keepdim=True).clamp_(min=1)
    return _mask_down_to(probs, ordered.gather(-1, sizes - 1), sizes)
