"""One forward pass over cached columns. Llama-style decoders take a shorter way than the library's wrappers.

Most of a small model's pass is the library's bookkeeping around the layers (for one layer of width 128 a bare loop takes .62
of the full call on a CPU). The loop below calls the library's own layers with the same arguments; every other family goes
through the model itself.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM, PreTrainedModel


def forward(
    model: PreTrainedModel, ids: Tensor, positions: Tensor, mask: Tensor | dict | None, cache: DynamicCache, width: int, keep: int
) -> Tensor:
    """Logits of the last ``keep`` columns, (B, keep, V); the cache grows by the T columns of ``ids``.

    ids, positions  (B, T) int64 on the model's device
    mask            additive (B, 1, T, width + T) in the model's dtype, a dict of them by kind of layer, or None: causal
    width           columns in the cache before the pass
    """
    if type(model) is LlamaForCausalLM:
        return _bare_loop(model, ids, positions, mask, cache, width, keep)
    out = model(
        input_ids=ids,
        position_ids=positions,
        attention_mask=mask,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=keep,
    )
    return out.logits[:, -keep:]


def _bare_loop(
    model: LlamaForCausalLM, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: DynamicCache, width: int, keep: int
) -> Tensor:
    body = model.model
    hidden = body.embed_tokens(ids)
    if mask is None and ids.shape[1] > 1:
        mask = causal(ids.shape[1], width, hidden)
    rotary = body.rotary_emb(hidden, position_ids=positions)
    for layer in body.layers[: model.config.num_hidden_layers]:
        hidden = layer(
            hidden, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True, position_embeddings=rotary
        )
    return model.lm_head(body.norm(hidden[:, -keep:]))


def causal(fresh: int, width: int, like: Tensor) -> Tensor:
    """Additive mask (1, 1, fresh, width + fresh): each fresh column sees all before it and itself."""
    mask = torch.full((fresh, width + fresh), torch.finfo(like.dtype).min, dtype=like.dtype, device=like.device)
    return mask.triu_(width + 1)[None, None]
