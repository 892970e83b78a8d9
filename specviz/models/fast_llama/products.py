"""Products with weight matrices on a CPU, each computed in the fastest way for a few tokens. All ways agree up to rounding.

A pass of a few tokens reads every weight and does little with it, so the way of reading decides the speed. All products of a pass
through 12 layers of width 256 on two cores of an AMD EPYC, in ms, for 1, 5, 9 and 33 tokens:

    F.linear                             5.0   7.4   8.9   13.0
    the weights on the left (MKL)        2.1   2.9   4.4    9.4
    packed (oneDNN)                      2.7   2.4   2.8    4.9

On a processor without AVX-512, for 1, 4, 8, 16 and 32 tokens:

    the fastest of these                 5.6   5.7   8.4   10.3   13.9
    in half the bytes (FBGEMM)           3.9   4.9   6.9    9.1   14.4

The last way reads weights as float16 numbers and computes with them in float32. It is taken for a few tokens where weights are such
numbers, as those of most published models are: they are stored in 16 bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HALVED = 8  # up to this many tokens in a pass, over all rows, weights are read as float16 numbers
LONGEST = 512  # numbers that FBGEMM may add one after the other
FEW = 4  # otherwise, up to this many, the weights stand on the left
SOME = 8  # the same of a matrix so small that oneDNN's call takes longer than its work
SMALL = 2**16  # weights of such a small matrix
HINT = 16  # number of tokens that the packing is made for
EIGHT_BITS_BY = 16  # torch's 8-bit product reads this many numbers at a time, and past the end of a row of another length
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
_FBGEMM = "fbgemm" in torch.backends.quantized.supported_engines and hasattr(torch, "fbgemm_linear_fp16_weight_fp32_activation")


class RoundedWeights(NamedTuple):
    """A matrix in 8 bits: numbers (out, in) int8, and one scale for each row (out,) bfloat16. Its values are number times scale."""

    numbers: Tensor
    scales: Tensor


class HalfWeights:
    """A matrix as float16 numbers in FBGEMM's order, in groups of up to ``LONGEST`` columns.

    FBGEMM adds the products of a row one after the other, which loses digits in a long row. So each group is summed on its own,
    and the sums are added.
    """

    def __init__(self, plain: Tensor):
        self.zeros = plain.new_zeros(len(plain))  # the bias that a product asks for
        self.groups = [torch.fbgemm_pack_gemm_matrix_fp16(group.contiguous()) for group in self._split(plain)]

    @classmethod
    def convert_matrix(cls, plain: Tensor) -> HalfWeights | None:
        """Convert a float32 matrix (out, in); None if rounding its weights to float16 changes a product by more than float32 rounds it.

        bfloat16 weights pass too: only the smallest of them are no float16 numbers.
        """
        plain = plain.detach()
        if not (plain - plain.half().float()).norm() <= torch.finfo(torch.float32).eps * plain.norm():
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a later torch may drop this product; the others then take its place
            made = cls(plain)
            made.multiply(plain[:1])
        return made

    def multiply(self, tokens: Tensor) -> Tensor:
        """The product with tokens, (N, in) -> (N, out), float32."""
        if len(self.groups) == 1:  # splitting takes a fifth of a small product's time
            return torch.fbgemm_linear_fp16_weight_fp32_activation(tokens.contiguous(), self.groups[0], self.zeros)
        first, *others = (
            torch.fbgemm_linear_fp16_weight_fp32_activation(part.contiguous(), group, self.zeros)
            for part, group in zip(self._split(tokens), self.groups, strict=True)
        )
        return sum(others, first)

    @staticmethod
    def _split(numbers: Tensor) -> tuple[Tensor, ...]:
        return numbers.tensor_split(-(-numbers.shape[1] // LONGEST), 1)


class Weights:
    """A weight matrix (out, in), with the other forms in which products read it.

    plain    the weights
    rounded  the same values in 8 bits, if they exist and are faster on this device
    packs    whether copies in the order of oneDNN and of FBGEMM may be stored; each is made at first use
    """

    __slots__ = ("_halves", "_packed", "packs", "plain", "rounded")

    def __init__(self, plain: Tensor, rounded: RoundedWeights | None = None, packs: bool = False):
        here = plain.device.type == "cpu" and plain.dtype is torch.float32
        eight = here and hasattr(torch, "_weight_int8pack_mm") and plain.shape[1] % EIGHT_BITS_BY == 0
        self.plain, self.rounded = plain, rounded if eight else None
        self.packs, self._packed = packs and here and _ONEDNN, None
        self._halves: HalfWeights | bool | None = packs and here and _FBGEMM  # True: not made yet

    @property
    def packed(self) -> Tensor:
        """The weights in the order that ``_linear_pointwise`` reads."""
        if self._packed is None:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.plain.detach(), HINT)
        return self._packed

    @property
    def halves(self) -> HalfWeights | None:
        """The weights as float16 numbers, if they are such numbers and a copy may be stored."""
        if self._halves is True:
            self._halves = HalfWeights.convert_matrix(self.plain)
        return self._halves or None

    @classmethod
    def join_layers(cls, *parts: nn.Linear, packs: bool = False) -> Weights:
        """Join the weights of layers that read the same input into one matrix, the first layer's on top.

        No copy is made of several layers: their own weights become views of the joined matrix.
        """
        rounded = [getattr(part.weight, "rounded", None) for part in parts]
        joined = RoundedWeights(*map(torch.cat, zip(*rounded, strict=True))) if all(rounded) else None
        if len(parts) == 1:
            return cls(parts[0].weight, joined, packs)
        whole = _find_joined(parts)
        if whole is None:
            with torch.inference_mode(False):
                whole = torch.cat([part.weight.detach() for part in parts])
            for part, own in zip(parts, whole.split([len(part.weight) for part in parts]), strict=True):
                part.weight.data = own
        return cls(whole, joined, packs)


def _find_joined(parts: Sequence[nn.Linear]) -> Tensor | None:
    """The matrix of which these layers' weights are views already, one below the other; None: they are not."""
    weights = [part.weight.detach() for part in parts]
    first, width = weights[0], weights[0].shape[1]
    ends, offset = [], first.storage_offset()
    for weight in weights:
        ends.append(weight.is_contiguous() and weight.storage_offset() == offset)
        offset += weight.numel()
    if not all(ends) or len({weight.untyped_storage()._cdata for weight in weights}) > 1:
        return None
    return first.as_strided((sum(map(len, weights)), width), (width, 1))


def multiply(x: Tensor, weights: Weights | Tensor | nn.Module) -> Tensor:
    """``multiply_unordered``, with each token's numbers contiguous in memory."""
    return multiply_unordered(x, weights).contiguous()


def multiply_unordered(x: Tensor, weights: Weights | Tensor | nn.Module) -> Tensor:
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
    elif count <= HALVED and (halves := known.halves):
        found = halves.multiply(tokens)
    elif count == 1:
        found = torch.mm(known.plain, tokens.expand(2, -1).contiguous().t()).t()[:1]
    elif count <= (FEW if known.plain.numel() > SMALL else SOME):
        found = torch.mm(known.plain, tokens.t()).t()
    elif _ONEDNN and x.dtype is torch.float32:
        form = known.packed if known.packs else known.plain
        found = torch.ops.mkldnn._linear_pointwise(tokens, form, None, "none", [], "")
    else:
        found = F.linear(tokens, known.plain)
    return found.view(rows, fresh, -1)
