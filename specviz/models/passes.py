"""One forward pass over cached columns, by the shortest way that gives the same logits.

Most of a small model's pass is the library's bookkeeping around its layers. Llama-style decoders skip the outer wrappers: a
loop calls the library's own layers with the same arguments. For drafters of one or two layers even the layers' wrappers
outweigh the arithmetic, so there it is written out with the model's own weights. Every other family goes through the model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM, PreTrainedModel

TINY = 2  # layers up to which the arithmetic is written out


def forward(
    model: PreTrainedModel, ids: Tensor, positions: Tensor, mask: Tensor | dict | None, cache: DynamicCache, width: int, keep: int
) -> Tensor:
    """Logits of the last ``keep`` columns, (B, keep, V); the cache grows by the T columns of ``ids``.

    ids, positions  (B, T) int64 on the model's device
    mask            additive (B, 1, T, width + T) in the model's dtype, a dict of them by kind of layer, or None: causal
    width           columns in the cache before the pass
    """
    if type(model) is LlamaForCausalLM:
        return _llama(model, ids, positions, mask, cache, width, keep)
    out = model(
        input_ids=ids,
        position_ids=positions,
        attention_mask=mask,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=keep,
    )
    return out.logits[:, -keep:]


def _llama(
    model: LlamaForCausalLM, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: DynamicCache, width: int, keep: int
) -> Tensor:
    body, config = model.model, model.config
    hidden = body.embed_tokens(ids)
    if mask is None and ids.shape[1] > 1:
        mask = causal(ids.shape[1], width, hidden)
    rotary = body.rotary_emb(hidden, position_ids=positions)
    plain = not (config.attention_bias or config.mlp_bias) and config.hidden_act == "silu" and width > 0
    if plain and config.num_hidden_layers <= TINY:
        for number, layer in enumerate(body.layers):
            hidden = _written_out(layer, hidden, rotary, mask, cache.layers[number], config.head_dim)
    else:
        for layer in body.layers:
            hidden = layer(
                hidden,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                position_embeddings=rotary,
            )
    return F.linear(_normed(body.norm, hidden[:, -keep:]), model.lm_head.weight)


def _written_out(layer, hidden: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None, held, size: int) -> Tensor:
    """A Llama layer (Touvron et al. 2023): attention over the held columns and the fresh ones, then the gated network."""
    attention, network = layer.self_attn, layer.mlp
    rows, fresh, _ = hidden.shape
    x = _normed(layer.input_layernorm, hidden)
    q, k, v = (F.linear(x, part.weight) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
    heads = q.shape[-1] // size
    turned = _rotated(torch.cat((q, k), -1).view(rows, fresh, -1, size).transpose(1, 2), *rotary)
    held.keys = torch.cat((held.keys, turned[:, heads:]), 2)
    held.values = torch.cat((held.values, v.view(rows, fresh, -1, size).transpose(1, 2)), 2)
    mixed = F.scaled_dot_product_attention(
        turned[:, :heads], held.keys, held.values, mask, scale=attention.scaling, enable_gqa=q.shape != k.shape
    )
    hidden = hidden + F.linear(mixed.transpose(1, 2).reshape(rows, fresh, -1), attention.o_proj.weight)
    x = _normed(layer.post_attention_layernorm, hidden)
    gated = F.silu(F.linear(x, network.gate_proj.weight)) * F.linear(x, network.up_proj.weight)
    return hidden + F.linear(gated, network.down_proj.weight)


def _normed(norm: torch.nn.Module, x: Tensor) -> Tensor:
    """The layer's own norm; in float32 torch's fused one, which computes the same."""
    if x.dtype is torch.float32:
        return F.rms_norm(x, x.shape[-1:], norm.weight, norm.variance_epsilon)
    return norm(x)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding (Su et al. 2021), halves paired as in Llama; x (B, H, T, D), cos and sin (B, T, D)."""
    first, second = x.chunk(2, -1)
    return torch.addcmul(x * cos[:, None], torch.cat((-second, first), -1), sin[:, None])


def causal(fresh: int, width: int, like: Tensor) -> Tensor:
    """Additive mask (1, 1, fresh, width + fresh): each fresh column sees all before it and itself."""
    mask = torch.full((fresh, width + fresh), torch.finfo(like.dtype).min, dtype=like.dtype, device=like.device)
    return mask.triu_(width + 1)[None, None]
