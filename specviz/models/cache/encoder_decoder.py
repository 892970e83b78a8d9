"""An encoder-decoder model that has read its prompt: a causal decoder with cross-attention (Raffel et al. 2020, T5).

The encoder runs once per request. Keys and values of the cross-attention are stored and never change; the decoder's own columns
are cached, rolled back and moved like those of any causal model. T5 adds an attention bias for the distance between two tokens,
which the library counts in columns. Trees, ragged batches and holes change the columns, so here the bias is looked up by
position.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import Cache

from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.masks import find_lowest_value
from specviz.models.processors import Processor
from specviz.settings import Settings


class ConditionedModel(CachedModel):
    """An encoder-decoder model with the sampling settings of one request. Prefixes hold decoder ids, start token included.

    Args:
        model: T5 or mT5; read-only.
        prompt: Ids that the encoder reads, at least one; all rows share them.
    """

    plain, has_position_bias = False, True

    def __init__(
        self,
        model: PreTrainedModel,
        settings: Settings,
        vocabulary: int | None,
        prompt: Sequence[int],
        processors: Sequence[Processor] = (),
    ):
        super().__init__(model, settings, vocabulary, processors)
        self._conditioned = self._pass = ConditionedPass(model, prompt)

    def _build_additive_mask(self, visible: Tensor, where: Tensor, positions: Tensor) -> Tensor:
        return self._conditioned.add_bias(visible, where, positions)


class ConditionedPass:
    """One pass through the decoder of a T5 model. Called like a pass of fast_llama; a given mask already includes the bias.

    The layers run in the library's own code, one after the other, with a bias by position.
    """

    @torch.inference_mode()
    def __init__(self, model: PreTrainedModel, prompt: Sequence[int]):
        self.keeps_features, self.features = True, torch.empty(0)
        self.decoder, self.head = model.decoder, model.lm_head
        self.scale = model.config.d_model**-0.5 if getattr(model.config, "scale_decoder_outputs", False) else 1.0
        self.table = _collect_distances(model.decoder.block[0].layer[0].SelfAttention)
        self.states = model.encoder(input_ids=torch.tensor([list(prompt)], device=model.device)).last_hidden_state
        self.crossed = [_compute_encoder_keys(block.layer[1].EncDecAttention, self.states) for block in model.decoder.block]
        self.cross = DynamicCache()
        for layer, (keys, values) in enumerate(self.crossed):
            self.cross.update(keys, values, layer)

    def __call__(self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: Cache, width: int, keep: int) -> Tensor:
        hidden, across = self.decoder.embed_tokens(ids), None
        if mask is None:
            where = torch.arange(width + ids.shape[1], device=ids.device)[None]
            mask = self.add_bias(where[:, None, :] <= positions[:1, :, None], where, positions[:1])
        nothing, both = mask.new_zeros(1, 1, 1, 1), EncoderDecoderCache(cache, self._expand_crossed(len(ids)))
        for block in self.decoder.block:
            hidden, _, across = block(
                hidden,
                attention_mask=mask,
                position_bias=nothing,
                encoder_hidden_states=self.states,  # keys and values are in the cache; this only enables cross-attention
                encoder_decoder_position_bias=across,
                past_key_values=both,
            )
        self.features = self.decoder.final_layer_norm(hidden) * self.scale
        return self.head(self.features[:, -keep:])

    def add_bias(self, visible: Tensor, where: Tensor, positions: Tensor) -> Tensor:
        """Additive mask with the relative position bias, (B, heads, T, S) in the model's dtype.

        ``visible`` (B, T, S) bool tells which columns each token attends to; ``where`` (B, S) and ``positions`` (B, T) are their
        positions.
        """
        device = self.table.device
        back = (positions[:, :, None] - where[:, None, :]).clamp_(0, self.table.shape[1] - 1)
        return (
            self.table[:, back.to(device)]
            .transpose(0, 1)
            .masked_fill(~visible[:, None].to(device), find_lowest_value(self.table.dtype))
        )

    def _expand_crossed(self, rows: int) -> Cache:
        """The prompt's keys and values, expanded to ``rows`` rows without copying."""
        for layer, (keys, values) in zip(self.cross.layers, self.crossed, strict=True):
            layer.keys, layer.values = keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1)
        return self.cross


def _collect_distances(attention: torch.nn.Module) -> Tensor:
    """(heads, farthest + 1): attention bias by distance. All greater distances share the last entry."""
    farthest = attention.relative_attention_max_distance
    return attention.compute_bias(1, farthest + 1, past_seen_tokens=farthest)[0, :, 0].flip(-1).contiguous()


def _compute_encoder_keys(attention: torch.nn.Module, states: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of the prompt, each (1, heads, S, size)."""
    return tuple(
        part(states).view(1, states.shape[1], -1, attention.key_value_proj_dim).transpose(1, 2)
        for part in (attention.k, attention.v)
    )
