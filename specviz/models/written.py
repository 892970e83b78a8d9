"""A Llama layer's arithmetic with its weights at hand (Touvron et al. 2023), without the library's wrappers.

In a pass of one token through a small model the wrappers take longer than the arithmetic. The weights are the model's own.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

FEW = 11  # tokens of a pass, all rows together, up to which the weights stand on the left


def plain(model: LlamaForCausalLM) -> bool:
    """Whether this arithmetic is the model's: float32, no biases, SiLU. (The library takes norms of other types in float32.)"""
    config = model.config
    return model.dtype is torch.float32 and not (config.attention_bias or config.mlp_bias) and config.hidden_act == "silu"


class WrittenLayer:
    """Attention over the held columns and the fresh ones, then the gated network.

    layer  one of the model's; size  of a head
    """

    __slots__ = ("down", "epsilon", "first", "gate", "heads", "key", "out", "query", "scaling", "second", "size", "up", "value")

    def __init__(self, layer: torch.nn.Module, size: int):
        attention, network = layer.self_attn, layer.mlp
        self.query, self.key, self.value = (part.weight for part in (attention.q_proj, attention.k_proj, attention.v_proj))
        self.out, self.scaling, self.size = attention.o_proj.weight, attention.scaling, size
        self.gate, self.up, self.down = network.gate_proj.weight, network.up_proj.weight, network.down_proj.weight
        self.first, self.second = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        self.epsilon, self.heads = layer.input_layernorm.variance_epsilon, self.query.shape[0] // size

    def __call__(self, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, held) -> Tensor:
        """hidden (B, T, width) -> the same; cos, sin (B, T, 1, D); ``held``: the cache's layer, which grows by T columns."""
        rows, fresh, width = hidden.shape
        x = F.rms_norm(hidden, (width,), self.first, self.epsilon)
        turning = torch.cat((product(x, self.query), product(x, self.key)), -1).view(rows, fresh, -1, self.size)
        turned = rotated(turning, cos, sin).transpose(1, 2)
        values = product(x, self.value).view(rows, fresh, -1, self.size).transpose(1, 2)
        held.keys, held.values = torch.cat((held.keys, turned[:, self.heads :]), 2), torch.cat((held.values, values), 2)
        mixed = F.scaled_dot_product_attention(
            turned[:, : self.heads],
            held.keys,
            held.values,
            mask,
            scale=self.scaling,
            enable_gqa=self.query.shape != self.key.shape,
        )
        hidden = hidden + product(mixed.transpose(1, 2).reshape(rows, fresh, -1), self.out)
        x = F.rms_norm(hidden, (width,), self.second, self.epsilon)
        return hidden + product(F.silu(product(x, self.gate)).mul_(product(x, self.up)), self.down)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """``F.linear`` without bias. For a few tokens on a CPU the weights stand on the left: there that is two to three times as fast.

    One token goes in twice, and its second answer is dropped: a matrix times one vector is slower than times two.
    x (B, T, in), weight (out, in) -> (B, T, out)
    """
    rows, fresh, width = x.shape
    if rows * fresh > FEW or x.device.type != "cpu":
        return F.linear(x, weight)
    tokens = x.reshape(-1, width)
    if len(tokens) == 1:
        return torch.mm(weight, tokens.expand(2, -1).contiguous().t()).t()[:1].contiguous().view(1, 1, -1)
    return torch.mm(weight, tokens.t()).t().contiguous().view(rows, fresh, -1)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding (Su et al. 2021), halves paired as in Llama; x (B, T, H, D), cos and sin (B, T, 1, D)."""
    first, second = x.chunk(2, -1)
    return torch.addcmul(x * cos, torch.cat((-second, first), -1), sin)
