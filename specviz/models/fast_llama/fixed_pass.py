"""A pass through a Llama-style decoder over a cache of fixed size, in as few kernels as it takes.

On a GPU the number of kernels decides what a pass of a few tokens costs. So q, k and v are one product, gate and up another, residuals
are added by the products, and keys and values are written by one index that all layers share. Query heads that read the same keys
are stacked as further query tokens, so no layer expands keys and values over query heads, whichever attention kernel runs.

A layer is two functions of tensors, the same for all layers of a model: the compiler compiles them once. Between them keys and values
are written, outside of what is compiled, because a compiled write into a part of a tensor copies the whole of it.
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
        grouped = self.group > 1 and _can_group_heads(self.embedding, heads, heads // self.group, size)
        self._begin: Callable[..., tuple[Tensor, Tensor]] = partial(
            project_tokens, heads=heads, key_heads=heads // self.group, size=size, epsilon=self.epsilon
        )
        self._end: Callable[..., Tensor] = partial(
            attend_and_transform,
            heads=heads,
            epsilon=self.epsilon,
            scaling=float(attention.scaling),
            grouped=grouped,
        )
        self._compiled: tuple[Callable[..., tuple[Tensor, Tensor]], Callable[..., Tensor]] | None = None

    def compile(self, compiler: dict[str, Any]) -> None:
        """Compile the two functions of a layer once, for all layers."""
        begin, end = (torch.compile(part, fullgraph=True, dynamic=False, **compiler) for part in (self._begin, self._end))
        self._compiled = begin, end

    def prepare(self, ids: Tensor, positions: Tensor, mask: Tensor, index: Tensor) -> tuple[Tensor, PassInputs]:
        """States (N, width) before the layers, and what the layers share.

        ids, positions: (B, T); mask: (B, 1, T G, S), each token's line once for each of G query heads; index: (N,).
        """
        cos, signed = self.angles[positions.flatten()].unsqueeze(1).chunk(2, -1)
        return F.embedding(ids.flatten(), self.embedding), PassInputs(cos, signed, mask, index)

    def run_layers(self, hidden: Tensor, inputs: PassInputs, cache: Sequence[Tensor], is_compiled: bool = True) -> Tensor:
        """States (N, width) after the layers.

        cache: keys and values of each layer, (B, S, 2 K, D), keys first, which are written; is_compiled: by the compiled layer if
        there is one.
        """
        begin, end = self._compiled if is_compiled and self._compiled else (self._begin, self._end)
        for weights, stored in zip(self.layers, cache, strict=True):
            queries, fresh = begin(hidden, inputs.cos, inputs.signed, weights)
            stored.flatten(0, 1).index_copy_(0, inputs.index, fresh)
            hidden = end(hidden, queries, stored, inputs.mask, weights)
        return hidden

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """(N, width) -> (N, V)."""
        return F.linear(_normalize(hidden, self.norm, self.epsilon), self.head)


def project_tokens(
    hidden: Tensor,
    cos: Tensor,
    signed: Tensor,
    weights: LayerWeights,
    heads: int,
    key_heads: int,
    size: int,
    epsilon: float,
) -> tuple[Tensor, Tensor]:
    """The first part of a layer on N tokens: queries (N, H, D), and keys and values (N, 2 K, D), keys first."""
    count = len(hidden)
    every = F.linear(_normalize(hidden, weights.first_norm, epsilon), weights.projections, weights.projections_bias)
    turned, values = every.view(count, -1, size).split([heads + key_heads, key_heads], 1)
    if weights.query_norm is not None:
        assert weights.key_norm is not None, "a family with one of the norms has both"
        queries, keys = turned.split([heads, key_heads], 1)
        turned = torch.cat([_normalize(queries, weights.query_norm, epsilon), _normalize(keys, weights.key_norm, epsilon)], 1)
    queries, keys = apply_rotary(turned, cos, signed).split([heads, key_heads], 1)
    return queries, torch.cat([keys, values], 1)


def attend_and_transform(
    hidden: Tensor,
    queries: Tensor,
    stored: Tensor,
    mask: Tensor,
    weights: LayerWeights,
    heads: int,
    epsilon: float,
    scaling: float,
    grouped: bool,
) -> Tensor:
    """The rest of a layer on N tokens: attention, and the gated network, (N, width) -> (N, width).

    Args:
        hidden: (N, width), before the layer.
        queries: (N, H, D).
        stored: Keys and values, (B, S, 2 K, D), keys first.
        mask: (B, 1, T G, S) additive.
        weights: The layer's.
        heads: H.
        epsilon: Of norms.
        scaling: Factor of scores.
        grouped: Whether a pass over one token leaves it to the attention kernel which heads read the same keys.
    """
    (rows, _, both, size), count = stored.shape, len(hidden)
    keys, values = stored.transpose(1, 2).chunk(2, 1)
    key_heads, tokens = both // 2, count // rows
    group = heads // key_heads
    if grouped and tokens == 1:
        single = queries.view(rows, heads, 1, size)
        mixed = F.scaled_dot_product_attention(single, keys, values, mask[:, :, :1], scale=scaling, enable_gqa=True)
        mixed = mixed.reshape(count, heads * size)
    else:
        stacked = queries.reshape(rows, tokens, key_heads, group, size).transpose(1, 2)
        stacked = stacked.reshape(rows, key_heads, tokens * group, size)
        mixed = F.scaled_dot_product_attention(stacked, keys, values, mask, scale=scaling)
        mixed = mixed.view(rows, key_heads, tokens, group, size).transpose(1, 2).reshape(count, heads * size)
    hidden = _add_product(hidden, mixed, weights.out, weights.out_bias)
    entering = F.linear(_normalize(hidden, weights.second_norm, epsilon), weights.entering, weights.entering_bias)
    gate, up = entering.chunk(2, -1)
    return _add_product(hidden, F.silu(gate) * up, weights.down, weights.down_bias)


def _can_group_heads(like: Tensor, heads: int, key_heads: int, size: int) -> bool:
    """Whether a fused attention kernel of this GPU takes fewer heads of keys than of queries, beside a mask.

    Without one torch would repeat the keys. The kernel that does is faster for one query than the stacked heads are.
    """
    if like.device.type != "cuda" or like.dtype not in (torch.bfloat16, torch.float16) or torch.version.cuda is None:
        return False
    query, key = (like.new_zeros(1, number, length, size) for number, length in ((heads, 1), (key_heads, 64)))
    params = torch.backends.cuda.SDPAParams(query, key, key, like.new_zeros(1, 1, 1, 64), 0.0, False, True)
    return torch.backends.cuda.can_use_cudnn_attention(params)


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
