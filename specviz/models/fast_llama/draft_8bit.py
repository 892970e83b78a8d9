"""A draft in 8 bits: a quarter of the bytes to read at every step, which is most of the time of a small draft's step.

Each row of a weight matrix becomes whole numbers from -127 to 127 and one scale (weight-only quantization; Dettmers et al. 2022
call it vector-wise absmax). The result is another draft model with its own distributions. Its draft tokens are drawn from them and
verified with them, so the text keeps the target's distribution. A target is never rounded this way, because its distribution is
the one to keep (int8.py has targets that are served in int8).
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel

from specviz.models.fast_llama.products import RoundedWeights

BITS = 8
LARGEST = 2 ** (BITS - 1) - 1


@torch.no_grad()
def round_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Round every linear layer of ``model`` to 8 bits in place, and store the 8-bit numbers with the weights.

    On a CPU in float32, passes.py multiplies by the 8-bit numbers, with bfloat16 inputs and float32 sums. Elsewhere the same
    values are used in the model's dtype.
    """
    for part in model.modules():
        if isinstance(part, nn.Linear) and not hasattr(part.weight, "rounded"):  # tied layers share one parameter
            part.weight.rounded = _round_weight(part.weight)
            part.weight.data = (part.weight.rounded.numbers * part.weight.rounded.scales[:, None].float()).to(part.weight.dtype)
    return model


def is_rounded(model: PreTrainedModel) -> bool:
    """Whether ``round_weights`` was applied."""
    return any(hasattr(weight, "rounded") for weight in model.parameters())


def _round_weight(weight: torch.Tensor) -> RoundedWeights:
    scales = (weight.float().abs().amax(1) / LARGEST).clamp_min(torch.finfo(torch.float32).tiny).bfloat16()
    numbers = torch.round(weight.float() / scales[:, None].float()).clamp_(-LARGEST, LARGEST)
    return RoundedWeights(numbers.to(torch.int8), scales)
