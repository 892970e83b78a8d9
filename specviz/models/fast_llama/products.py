"""Products with weight matrices on a CPU, each computed in the fastest way for a few tokens. All ways agree up to rounding.

A pass of a few tokens reads every weight and does little with it, so the way of reading decides the speed. All products of a pass
through 12 layers of width 256 on two cores of an AMD EPYC, in ms, for 1, 5, 9 and 33 tokens:

    F.linear                             5.0   7.4   8.9   13.0
    the weights on the left (MKL)        2.1   2.9   4.4    9.4
    packed (oneDNN)                      2.7   2.4   2.8    4.9
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW = 4  # up to this many tokens in a pass, over all rows, the weights stand on the left
SOME = 8  # the same if they are not packed, or so few that oneDNN's call takes longer than its work
SMALL = 2**16  # weights of such a small matrix
HINT = 16  # number of tokens that the packing is made for
EIGHT_BITS_BY = 16  # torch's 8-bit product reads this many numbers at a time, and past the end of a row of another length
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Rounded(NamedTuple):
    """A matrix in 8 bits: numbers (out, in) int8, and one scale for each row (out,) bfloat16. Its values are number times scale."""

    numbers: Tensor
    scales: Tensor


class Weights:
    """A weight matrix (out, in), with the other forms in which products read it.

    plain    the weights
    rounded  the same values in 8 bits, if they exist and are faster on this device
    packs    whether a copy in oneDNN's order may be stored; it is made at first use
    """

    __slots__ = ("_packed", "packs", "plain", "rounded")

    def __init__(self, plain: Tensor, rounded: Rounded | None = None, packs: bool = False):
        here = plain.device.type == "cpu" and plain.dtype is torch.float32
        eight = here and hasattr(torch, "_weight_int8pack_mm") and plain.shape[1] % EIGHT_BITS_BY == 0
        self.plain, self.rounded = plain, rounded if eight else None
        self.packs, self._packed = packs and here and _ONEDNN, None

    @property
    def packed(self) -> Tensor:
        """The weights in the order that ``_linear_pointwise`` reads."""
        if self._packed is None:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.plain.detach(), HINT)
        return self._packed

    @classmethod
    def of(cls, *parts: nn.Linear, packs: bool = False) -> Weights:
        """Join the weights of layers that read the same input into one matrix, the first layer's on top.

        No copy is made of several layers: their own weights become views of the joined matrix.
        """
        rounded = [getattr(part.weight, "rounded", None) for part in parts]
        joined = Rounded(*map(torch.cat, zip(*rounded, strict=True))) if all(rounded) else None
        if len(parts) == 1:
            return cls(parts[0].weight, joined, packs)
        with torch.inference_mode(False):
            whole = torch.cat([part.weight.detach() for part in parts])
        for part, own in zip(parts, whole.split([len(part.weight) for part in parts]), strict=True):
            part.weight.data = own
        return cls(whole, joined, packs)


def product(x: Tensor, weights: Weights | Tensor | nn.Module) -> Tensor:
    """``laid_out``, with each token's numbers contiguous in memory."""
    return laid_out(x, weights).contiguous()


def laid_out(x: Tensor, weights: Weights | Tensor | nn.Module) -> Tensor:
    """``F.linear`` without bias; x (B, T, in), weights (out, in) -> (B, T, out). A module is called as it is.

    The result has the memory layout that the product left: with the weights on the left, the first numbers of all tokens come
    first. Elementwise operations do not care, and moving the numbers takes as long as a small sum.

    A single token is passed twice and the second result dropped, because a matrix times one vector is slower than times two.
    """
    if isinstance(weights, nn.Module):
        return weights(x)
    rows, fresh, width = x.shape
    known = weights if isinstance(weights, Weights) else Weights(weights)
    if not x.is_cpu:
        return F.linear(x, known.plain)
    tokens, count = x.reshape(-1, width).contiguous(), rows * fresh
    if known.rounded is not None:
        found = torch._weight_int8pack_mm(tokens.bfloat16(), *known.rounded).float()
    elif count == 1:
        found = torch.mm(known.plain, tokens.expand(2, -1).contiguous().t()).t()[:1]
    elif count <= (FEW if known.packs and known.plain.numel() > SMALL else SOME):
        found = torch.mm(known.plain, tokens.t()).t()
    elif _ONEDNN and x.dtype is torch.float32:
        form = known.packed if known.packs else known.plain
        found = torch.ops.mkldnn._linear_pointwise(tokens, form, None, "none", [], "")
    else:
        found = F.linear(tokens, known.plain)
    return found.view(rows, fresh, -1)
