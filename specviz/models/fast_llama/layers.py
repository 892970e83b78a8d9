"""The arithmetic of a Llama layer (Touvron et al. 2023), without the library's wrappers.

In a pass of one token through a small model the wrappers take longer than the arithmetic. The weights are the model's own. An int8
matrix (int8.py) has no float32 weights and computes its product itself.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaForCausalLM
from transformers.cache_utils import CacheLayerMixin

from specviz.models.cache.columns import append_columns
from specviz.models.fast_llama.int8 import Int8Linear
from specviz.models.fast_llama.products import Weights, multiply, multiply_unordered

PACKED_MAX = 512 * 2**20  # bytes of weights up to which a second, packed copy is stored
_weights: WeakKeyDictionary = WeakKeyDictionary()  # model -> Written; read-only once made
_weights_lock = Lock()


class FastWeights(NamedTuple):
    """What a pass reads of a model: its layers (empty if this file does not cover them), and the output matrix."""

    layers: list[FastLayer]
    head: Weights | nn.Module


def find_fast_weights(model: LlamaForCausalLM) -> FastWeights:
    """The ``FastWeights`` of a model: made once, shared by all requests."""
    with _weights_lock:
        if model not in _weights:
            known = is_covered(model)
            packs = known and sum(p.numel() * p.element_size() for p in model.parameters()) <= PACKED_MAX
            layers = [FastLayer(layer, model.config.head_dim, packs) for layer in model.model.layers] if known else []
            _weights[model] = FastWeights(layers, join_matrices(model.lm_head, packs=packs))
        return _weights[model]


def is_covered(model: LlamaForCausalLM) -> bool:
    """Whether this file computes what the model computes: float32, no biases, SiLU, and both norms.

    For other dtypes the library computes norms in float32.
    A model with matrices in an unknown form, such as another library's quantization, is left to that library.
    """
    config = model.config
    simple = model.dtype is torch.float32 and not (config.attention_bias or config.mlp_bias) and config.hidden_act == "silu"
    normal = all(hasattr(layer.input_layernorm, "variance_epsilon") for layer in model.model.layers)
    return simple and normal and all(are_joinable(*parts) for layer in model.model.layers for parts in group_projections(layer))


def join_matrices(*parts: nn.Module, packs: bool = False) -> Weights | nn.Module:
    """What ``multiply`` takes, for layers that read the same input. A single layer in an unknown form is returned as it is."""
    if all(isinstance(part, Int8Linear) for part in parts):
        return Int8Linear.join_layers(parts)
    return Weights.join_layers(*parts, packs=packs) if are_joinable(*parts) else parts[0]


def are_joinable(*parts: nn.Module) -> bool:
    """Whether all of these are plain weights, or all are int8."""
    floats = all(type(part) is nn.Linear and type(part.weight) in (Tensor, nn.Parameter) for part in parts)
    return floats or all(isinstance(part, Int8Linear) for part in parts)


def group_projections(layer: nn.Module) -> tuple[tuple[nn.Module, ...], ...]:
    """A layer's matrices, grouped by the input that they read."""
    attention, network = layer.self_attn, layer.mlp
    every = attention.q_proj, attention.k_proj, attention.v_proj
    return every, (attention.o_proj,), (network.gate_proj, network.up_proj), (network.down_proj,)


class FastLayer:
    """Attention over the cached and the new columns, then the gated network.

    layer  a layer of the model
    size   size of a head
    packs  as in Weights
    """

    __slots__ = (
        "all",
        "down",
        "entering",
        "epsilon",
        "first",
        "heads",
        "in_float64",
        "out",
        "rotated_heads",
        "scaling",
        "second",
        "shared",
        "size",
    )

    def __init__(self, layer: nn.Module, size: int, packs: bool = False):
        attention = layer.self_attn
        self.all, self.out, self.entering, self.down = (join_matrices(*parts, packs=packs) for parts in group_projections(layer))
        self.in_float64 = isinstance(self.all, Int8Linear)  # the order of sums must not show before rounding to int8
        self.first, self.second = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        self.epsilon, self.scaling, self.size = layer.input_layernorm.variance_epsilon, attention.scaling, size
        self.heads = attention.q_proj.out_features // size
        self.rotated_heads = self.heads + attention.k_proj.out_features // size  # of queries and keys
        self.shared = self.rotated_heads != 2 * self.heads

    def __call__(
        self, hidden: Tensor, cos: Tensor, signed: Tensor, mask: Tensor | None, held: CacheLayerMixin, every: Tensor | None = None
    ) -> Tensor:
        """The layer's states, (B, T, width) -> (B, T, width).

        cos, signed  (B, T, 1, D), as in ``apply_rotary``
        mask         None, or additive (B, 1, T, S); each of the last tokens whose columns it lacks sees itself, too
        held         the layer of the cache, which grows by T columns
        every        queries, keys and values of ``hidden``, (B, T, out), if already known
        """
        rows, fresh, _ = hidden.shape
        if every is None:
            every = multiply(apply_rms_norm(hidden, self.first, self.epsilon), self.all)
        every = every.view(rows, fresh, -1, self.size)
        turned = apply_rotary(every[:, :, : self.rotated_heads], cos, signed).transpose(1, 2)
        append_columns(held, turned[:, self.heads :], every[:, :, self.rotated_heads :].transpose(1, 2))
        mixed = self._attend(turned[:, : self.heads], held.keys, held.values, mask)
        hidden = hidden + multiply_unordered(mixed.transpose(1, 2).reshape(rows, fresh, -1), self.out)
        gate, up = multiply_unordered(apply_rms_norm(hidden, self.second, self.epsilon), self.entering).chunk(2, -1)
        return hidden + multiply_unordered(
            torch.sigmoid(gate).mul_(gate).mul_(up), self.down
        )  # SiLU; torch's own takes twice as long

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        if self.in_float64:
            queries, keys, values, mask = (None if x is None else x.double() for x in (queries, keys, values, mask))
        if mask is not None and mask.shape[3] < keys.shape[2]:
            mixed = split_attention(queries * self.scaling, keys, values, mask)
        else:
            mixed = F.scaled_dot_product_attention(queries, keys, values, mask, scale=self.scaling, enable_gqa=self.shared)
        return mixed.float() if self.in_float64 else mixed


def split_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Attention (B, H, T, D) in which each of the last tokens also sees itself, and no other token sees it.

    queries       (B, H, T, D), scaled
    keys, values  (B, K, S + n, D), where the last n columns are those of the last n tokens; K divides H
    mask          additive (B, 1, T, S)

    Of a pass over hundreds of leaves of a tree, attention to all columns is a fifth, and nearly all of it is masked.
    """
    common, last = mask.shape[3], queries.shape[2] - keys.shape[2] + mask.shape[3]
    if (group := queries.shape[1] // keys.shape[1]) > 1:
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    scores = torch.matmul(queries, keys[:, :, :common].transpose(2, 3)).add_(mask)
    own = queries.new_full((*queries.shape[:3], 1), float("-inf"))
    own[:, :, last:] = (queries[:, :, last:] * keys[:, :, common:]).sum(-1, keepdim=True)
    weights = torch.softmax(torch.cat((scores, own), -1), -1)
    mixed = torch.matmul(weights[..., :common], values[:, :, :common])
    mixed[:, :, last:].addcmul_(weights[:, :, last:, common:], values[:, :, common:])
    return mixed


def apply_rotary(x: Tensor, cos: Tensor, signed: Tensor) -> Tensor:
    """Rotary position embedding (Su et al. 2021), halves paired as in Llama; x (B, T, H, D), cos and signed (B, T, 1, D).

    signed  sines of the angles, negated in the first half, where the second half of x enters with a minus sign
    """
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), signed)


def apply_rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """RMS norm (Zhang & Sennrich 2019), x (..., width). On a CPU ``F.rms_norm`` does the same in slower steps."""
    if x.device.type != "cpu":
        return F.rms_norm(x, weight.shape, weight, epsilon)
    mean = (x * x).sum(-1, keepdim=True).mul_(1 / x.shape[-1])
    return torch.mul(x, mean.add_(epsilon).rsqrt_()).mul_(weight)
