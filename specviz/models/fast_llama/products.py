"""Products with weight matrices on a CPU, each by the way that is fastest for so few tokens; every way gives the same up to rounding.

A pass of a few tokens reads every weight and does little with it, so the way it is read decides. All products of a pass through
12 layers of width 256 on two cores of an AMD EPYC, ms, for 1, 5, 9 and 33 tokens:

    F.linear                             5.0   7.4   8.9   13.0
    the weights on the left (MKL)        2.1   2.9   4.4    9.4
    packed (oneDNN)                      2.7   2.4   2.8    4.9
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW = 4  # tokens of a pass, all rows together, up to which the weights stand on the left
SOME = 8  # the same where they are not packed, or are so few that oneDNN's call takes longer than its work
SMALL = 2**16  # weights of such a matrix
HINT = 16  # tokens that a packing is made for
EIGHT_BITS_BY = (
    16  # numbers that torch's product in 8 bits reads at a time; of rows that are no multiple of it, it reads past the end
)
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Rounded(NamedTuple):
    """A matrix in 8 bits: whole numbers (out, in) int8, one scale per row (out,) bfloat16. Its values are number times scale."""

    numbers: Tensor
    scales: Tensor


class Weights:
    """A weight matrix (out, in), with the other forms in which products read it.

    plain    the weights; rounded  the same values in 8 bits, where they have them and this is where it pays
    packs    whether a copy may be kept in the order in which oneDNN reads; it is made when it is first wanted
    """

    __slots__ = ("_packed", "packs", "plain", "rounded")

    def __init__(self, plain: Tensor, rounded: Rounded | None = None, packs: bool = False):
        here = plain.device.type == "cpu" and plain.dtype is torch.float32
        eight = here and hasattr(torch, "_weight_int8pack_mm") and plain.shape[1] % EIGHT_BITS_BY == 0
        self.plain, self.rounded = plain, rounded if eight else None
        self.packs, self._packed = packs and here and _ONEDNN, None

    @property
    def packed(self) -> Tensor:
        """For ``_linear_pointwise``."""
        if self._packed is None:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.plain.detach(), HINT)
        return self._packed

    @classmethod
    def of(cls, *parts: nn.Linear, packs: bool = False) -> Weights:
        """Those of layers that read the same input as one matrix, the first layer's on top.

        Of several layers no copy stays behind: they go on with views of the one matrix.
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
    """``laid_out``, one token's numbers beside each other in memory."""
    return laid_out(x, weights).contiguous()


def laid_out(x: Tensor, weights: Weights | Tensor | nn.Module) -> Tensor:
    """``F.linear`` without bias; x (B, T, in), weights (out, in) -> (B, T, out). A matrix that is a layer by itself does it its own way.

    The answer lies in memory as the product left it: with the weights on the left, all tokens' first numbers come first. To what
    goes on number by number that is all one, and moving them takes as long as a small sum.

    One token goes in twice, and its second answer is dropped: a matrix times one vector is slower than times two.
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
