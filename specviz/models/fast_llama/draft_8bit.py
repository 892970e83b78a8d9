"""A draft in 8 bits: a quarter of the bytes to read at every step, and a step of a small draft is mostly reading.

Each row of a weight matrix becomes whole numbers from -127 to 127 and one scale (weight-only quantisation; Dettmers et al. 2022
call it vector-wise absmax). The draft that results is another draft, with distributions of its own: what it drafts is drawn from them and
judged by them, so the text's distribution stays the target's. A target is not rounded so, for its distribution is what is to be kept
(quantised.py has what becomes of one that is served in int8).
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel

from specviz.models.fast_llama.products import Rounded

BITS = 8
LARGEST = 2 ** (BITS - 1) - 1


@torch.no_grad()
def round_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Give every linear layer of ``model`` the values that 8 bits can say, in place, and keep the 8 bits beside them.

    On a CPU in float32 the passes of passes.py multiply by the 8 bits, with bfloat16 inputs and sums in float32; elsewhere by
    the same values in the model's dtype.
    """
    for part in model.modules():
        if isinstance(part, nn.Linear) and not hasattr(part.weight, "rounded"):  # a tied matrix is one parameter with two owners
            part.weight.rounded = _rounded(part.weight)
            part.weight.data = (part.weight.rounded.numbers * part.weight.rounded.scales[:, None].float()).to(part.weight.dtype)
    return model


def is_rounded(model: PreTrainedModel) -> bool:
    """Whether ``round_weights`` has been here."""
    return any(hasattr(weight, "rounded") for weight in model.parameters())


def _rounded(weight: torch.Tensor) -> Rounded:
    scales = (weight.float().abs().amax(1) / LARGEST).clamp_min(torch.finfo(torch.float32).tiny).bfloat16()
    numbers = torch.round(weight.float() / scales[:, None].float()).clamp_(-LARGEST, LARGEST)
    return Rounded(numbers.to(torch.int8), scales)
