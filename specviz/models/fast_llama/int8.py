"""A target with int8 matrices: weights with one scale for each output, activations with one scale for each token.

Dettmers et al. 2022 (LLM.int8(), vector-wise quantization). An activation's scale depends only on its own token, so the result for
a token does not depend on the other tokens of the pass: the distribution after a prefix stays a function of the prefix. Libraries
that take one scale over a whole pass lack this property, for example ``torch.ao.quantization.quantize_dynamic``. There the draft
tokens change the distributions.

Rounding to whole numbers can turn a difference in the last digit of a float into a step of 1/127, wherever a number lies close to
a half. A pass of several tokens sums attention in another order than passes of one token. Around these matrices attention is
therefore summed in float64 (layers.py). Families that run in the library's own code keep float32 there; for them passes of
different shapes agree only up to such steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specviz.errors import UnsupportedModelError

LARGEST = 127  # largest absolute value of the int8 numbers used


class Int8Linear(nn.Module):
    """A linear layer in int8. It holds no float weights, so nothing can use them by mistake.

    matrix  (out, in) int8
    scale   (out,) scale of each output
    bias    (out,) or None
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach()
        scale = weight.abs().amax(1).clamp(min=torch.finfo(weight.dtype).tiny) / LARGEST
        self.register_buffer("matrix", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())

    @classmethod
    def join_layers(cls, parts: Sequence[Int8Linear]) -> Int8Linear:
        """Join layers that read the same input, the first on top, so that their input is rounded only once."""
        if len(parts) == 1:
            return parts[0]
        whole = copy(parts[0])
        whole._buffers = {name: _stack_parts([part._buffers[name] for part in parts]) for name in whole._buffers}
        whole.out_features = sum(part.out_features for part in parts)
        return whole

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out). Sums are whole numbers and therefore equal in passes of every shape."""
        tokens = x.reshape(-1, x.shape[-1])
        scales = self.compute_scales(tokens).clamp(min=torch.finfo(x.dtype).tiny) / LARGEST
        sums = torch._int_mm((tokens / scales).round_().to(torch.int8), self.matrix.t())
        out = (sums * scales).mul_(self.scale)
        return (out if self.bias is None else out + self.bias).view(*x.shape[:-1], -1)

    def compute_scales(self, tokens: Tensor) -> Tensor:
        """(T, in) -> (T, 1): the largest absolute value of each token."""
        return tokens.abs().amax(-1, keepdim=True)


def _stack_parts(parts: Sequence[Tensor | None]) -> Tensor | None:
    return None if parts[0] is None else torch.cat(list(parts))


def quantize_model(model: PreTrainedModel, kind: type[Int8Linear] = Int8Linear) -> PreTrainedModel:
    """A copy of a model with every matrix except the embedding in int8. The model itself is not changed.

    Raises UnsupportedModelError for a model that is not float32 on a CPU, and for a family whose layers hold no plain matrices.
    """
    if model.dtype is not torch.float32 or model.device.type != "cpu":
        where = f"{str(model.dtype).removeprefix('torch.')} on {model.device.type}"
        raise UnsupportedModelError(f"Only a float32 target on a CPU can be quantized here; this one is {where}.")
    places = [(owner, name) for owner in model.modules() for name, part in owner.named_children() if type(part) is nn.Linear]
    if len(places) < 2:
        raise UnsupportedModelError(
            f"Models of the family {model.config.model_type} store their matrices in a form that cannot be quantized here."
        )
    other = deepcopy(model)
    for owner in other.modules():
        for name, part in [*owner.named_children()]:
            if type(part) is nn.Linear:
                setattr(owner, name, kind(part))
    return other.eval()
