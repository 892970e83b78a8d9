"""A pass through a Llama-style decoder over a cache of fixed size, in as few kernels as it takes.

On a GPU the number of kernels decides what a pass of a few tokens costs. So q, k and v are one product, gate and up another, residuals
are added by the products, and keys and values are written by one index that all layers share. Query heads that read the same keys
are stacked as further query tokens, so no layer expands keys and values over query heads, whichever attention kernel runs.

A layer is one function of tensors, the same for all layers of a model: the compiler compiles it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaForCausalLM, MistralForCausalLM, PreTrainedModel, Qwen2ForCausalLM, Qwen3ForCausalLM

from specviz.models.fast_llama.layers import apply_rms_norm, apply_rotary, are_joinable, group_projections
from specviz.models.fast_llama.products import Weights

COVERED = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
ROPE_TYPES = ("default", "linear", "llama3", "yarn")  # angles depend on the position alone


class LayerWeights(NamedTuple):
    """Weights of one layer; a bias or a norm that the family lacks is None."""

    first_norm: Tensor
    projections: Tensor
    projections_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    second_norm: Tensor
    entering: Tensor
    entering_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


class PassInputs(NamedTuple):
    """What all layers of a pass share, for N = B T tokens.

    Attributes:
        cos: (N, 1, D) cosines of the rotary angles.
        signed: (N, 1, D) sines, negated in the first half.
        mask: (B, 1, T G, S) additive, G query heads to each key head.
        index: (N,) int64, line of each token in a layer's keys and values, flattened over rows and columns.
    """

    cos: Tensor
    signed: Tensor
    mask: Tensor
    index: Tensor


def is_covered(model: PreTrainedModel) -> bool:
    """Whether this file computes what the model computes."""
    if type(model) not in COVERED or model.config.hidden_act != "silu" or type(model.lm_head) is not nn.Linear:
        return False
    body = model.model
    normal = all(hasattr(layer.input_layernorm, "variance_epsilon") for layer in body.layers)
    linear = all(
        are_joinable(*parts) and type(parts[0]) is nn.Linear for layer in body.layers for parts in group_projections(layer)
    )
    kinds = getattr(model.config, "layer_types", None) or ("",)
    return normal and linear and body.rotary_emb.rope_type in ROPE_TYPES and len(set(kinds)) == 1


class FixedPass:
    """A pass through all layers of a covered model.

    Args:
        model: Its projections become views of joined matrices; the values stay.
        columns: S, columns of the cache.
        last: Largest position of the model.
    """

    def __init__(self, model: Any, columns: int, last: int):
        body, attention = model.model, model.model.layers[0].self_attn
        self.embedding, self.norm, self.head = body.embed_tokens.weight, body.norm.weight, model.lm_head.weight
        self.epsilon, size = float(body.norm.variance_epsilon), int(attention.head_dim)
        heads = attention.q_proj.out_features // size
        self.group = heads // (attention.k_proj.out_features // size)
        self.layers = [_read_weights(layer) for layer in body.layers]
        places = torch.arange(columns, device=self.embedding.device).clamp(max=last)
        cos, sin = body.rotary_emb(self.embedding, position_ids=places[None])
        first, second = sin[0].chunk(2, -1)
        self.angles = torch.cat([cos[0], -first, second], -1)  # (S, 2 D)
        self.run_layer: Callable[..., Tensor] = partial(
            run_layer, heads=heads, size=size, epsilon=self.epsilon, scaling=float(attention.scaling)
        )
        self._compiled_layer: Callable[..., Tensor] | None = None

    def compile(self, compiler: dict[str, Any]) -> None:
        """Compile a layer once, for all of them."""
        self._compiled_layer = torch.compile(self.run_layer, fullgraph=True, dynamic=False, **compiler)

    def prepare(self, ids: Tensor, positions: Tensor, mask: Tensor, index: Tensor) -> tuple[Tensor, PassInputs]:
        """States (N, width) before the layers, and what the layers share.

        ids, positions: (B, T); mask: (B, 1, T G, S), each token's line once for each of G query heads; index: (N,).
        """
        cos, signed = self.angles[positions.flatten()].unsqueeze(1).chunk(2, -1)
        return F.embedding(ids.flatten(), self.embedding), PassInputs(cos, signed, mask, index)

    def run_layers(
        self, hidden: Tensor, inputs: PassInputs, cache: Sequence[tuple[Tensor, ...]], is_compiled: bool = True
    ) -> Tensor:
        """States (N, width) after the layers.

        cache: keys and values of each layer, (B, S, K, D) each, which are written; is_compiled: by the compiled layer if there is one.
        """
        run = self._compiled_layer if is_compiled and self._compiled_layer else self.run_layer
        for weights, (keys, values) in zip(self.layers, cache, strict=True):
            hidden = run(hidden, inputs, keys, values, weights)
        return hidden

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """(N, width) -> (N, V)."""
        return F.linear(_normalize(hidden, self.norm, self.epsilon), self.head)


def run_layer(
    hidden: Tensor,
    inputs: PassInputs,
    keys: Tensor,
    values: Tensor,
    weights: LayerWeights,
    heads: int,
    size: int,
    epsilon: float,
    scaling: float,
) -> Tensor:
    """One layer on N tokens, (N, width) -> (N, width). keys, values: (B, S, K, D), written at ``inputs.index``."""
    (rows, columns, key_heads, _), count = keys.shape, len(hidden)
    every = F.linear(_normalize(hidden, weights.first_norm, epsilon), weights.projections, weights.projections_bias)
    turned, fresh = every.view(count, -1, size).split([heads + key_heads, key_heads], 1)
    if weights.query_norm is not None:
        assert weights.key_norm is not None, "a family with one of the norms has both"
        queries, fresh_keys = turned.split([heads, key_heads], 1)
        turned = torch.cat(
            [_normalize(queries, weights.query_norm, epsilon), _normalize(fresh_keys, weights.key_norm, epsilon)], 1
        )
    turned = apply_rotary(turned, inputs.cos, inputs.signed)
    queries, fresh_keys = turned.split([heads, key_heads], 1)
    keys.view(rows * columns, key_heads, size).index_copy_(0, inputs.index, fresh_keys)
    values.view(rows * columns, key_heads, size).index_copy_(0, inputs.index, fresh)
    group, tokens = heads // key_heads, count // rows
    stacked = queries.reshape(rows, tokens, key_heads, group, size).transpose(1, 2).reshape(rows, key_heads, tokens * group, size)
    mixed = F.scaled_dot_product_attention(
        stacked, keys.transpose(1, 2), values.transpose(1, 2), attn_mask=inputs.mask, scale=scaling
    )
    mixed = mixed.view(rows, key_heads, tokens, group, size).transpose(1, 2).reshape(count, heads * size)
    hidden = _add_product(hidden, mixed, weights.out, weights.out_bias)
    entering = F.linear(_normalize(hidden, weights.second_norm, epsilon), weights.entering, weights.entering_bias)
    gate, up = entering.chunk(2, -1)
    return _add_product(hidden, F.silu(gate) * up, weights.down, weights.down_bias)


def _add_product(hidden: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``hidden`` plus the product of x with a matrix, summed by the product's kernel."""
    return torch.addmm(hidden if bias is None else hidden + bias, x, weight.t())


def _normalize(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """RMS norm over the last dimension; in float64 as the library computes it, in float32."""
    if x.dtype is not torch.float64:
        return apply_rms_norm(x, weight, epsilon)
    single = x.float()
    return weight * (single * torch.rsqrt(single.pow(2).mean(-1, keepdim=True) + epsilon)).to(x.dtype)


def _read_weights(layer: Any) -> LayerWeights:
    attention = layer.self_attn
    projections, out, entering, down = group_projections(layer)
    norms = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
    query_norm, key_norm = (None if norm is None else norm.weight for norm in norms)
    return LayerWeights(
        layer.input_layernorm.weight,
        *_join(projections),
        query_norm,
        key_norm,
        *_join(out),
        layer.post_attention_layernorm.weight,
        *_join(entering),
        *_join(down),
    )


def _join(parts: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
    """The joined matrix and bias of layers that read the same input."""
    biases = [part.bias for part in parts]
    bias = None if biases[0] is None else biases[0] if len(biases) == 1 else torch.cat([one.detach() for one in biases])
    return Weights.join_layers(*parts).plain, bias
