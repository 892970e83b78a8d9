"""One forward pass over cached columns, in the fastest way that gives the same logits.

Most of the time of a small model's pass goes into the library's bookkeeping around its layers. For Llama decoders the outer
wrappers are skipped: a loop calls the layers with the same arguments, and the rotary angles come from a table. In float32 the
layers themselves are replaced too (layers.py). Every other family runs through the library, with its products for a few tokens
replaced (few_tokens.py).
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel
from transformers.cache_utils import Cache

from specviz.models.cache.masks import build_causal_mask, count_self_seen
from specviz.models.fast_llama.layers import FastLayer, apply_rms_norm, find_fast_weights
from specviz.models.fast_llama.products import multiply
from specviz.models.few_tokens import OutputLinear, compute_only, copy_for_few_tokens

SPLIT_MIN = 96  # tokens that only they themselves see, from which on attention to themselves is computed apart
_GROW = 512  # positions by which a table of angles grows


def open_pass(model: PreTrainedModel) -> LibraryPass | LlamaPass:
    """The fastest pass through a model, for one request. The weights are the model's own, not copies.

    The returned pass is called with

    ids, positions  (B, T) int64 on the model's device; positions from 0, below the model's context
    mask            additive (B, 1, T, width + T) in the model's dtype, a dict of them by kind of layer, or None: causal
    cache           grows by the T columns of ``ids``
    width           columns in the cache before the pass
    keep            number of last columns whose logits are wanted; returned as (B, keep, V)
    picked          (U,) int64, only if ``picks``: which of these B * keep tokens pass the output layer; returned as (1, U, V)

    Afterward ``features`` holds the hidden states of all T columns, (B, T, width), after the final norm. It is set only while
    ``keeps_features`` is true, because the library then has to hold the states of every layer.
    """
    return LlamaPass(model) if type(model) is LlamaForCausalLM else LibraryPass(model)


class LibraryPass:
    """A pass through the library's ``forward``."""

    def __init__(self, model: PreTrainedModel):
        self.model = copy_for_few_tokens(model)
        self.picks = isinstance(self.model.get_output_embeddings(), OutputLinear)
        self.keeps_features, self.features = False, torch.empty(0)

    def __call__(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | dict | None,
        cache: Cache,
        width: int,
        keep: int,
        picked: Tensor | None = None,
    ) -> Tensor:
        with nullcontext() if picked is None else compute_only(keep, picked):
            out = self.model(
                input_ids=ids,
                position_ids=positions,
                attention_mask=mask,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=keep,
                output_hidden_states=self.keeps_features,
            )
        if self.keeps_features:
            self.features = out.hidden_states[-1]
        return out.logits[:, -keep:] if picked is None else out.logits


class LlamaPass:
    """The layers of a Llama decoder one after the other, with the rotary angles from a table.

    first, last  which layers, as in a slice; default: all
    """

    def __init__(self, model: LlamaForCausalLM, first: int = 0, last: int | None = None):
        self.keeps_features, self.first, self.picks = True, first, model.device.type == "cpu"
        self.body, self.embedding = model.model, model.model.embed_tokens.weight
        self.tabled = self.body.rotary_emb.rope_type in ("default", "linear", "llama3", "yarn")  # angles depend on position only
        self.angles = self.features = torch.empty(0)
        self.layers = list(self.body.layers)[first:last]
        self.written, self.head = find_fast_weights(model)
        self.written = self.written[first:last]

    def __call__(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        cache: Cache,
        width: int,
        keep: int,
        picked: Tensor | None = None,
    ) -> Tensor:
        return self._finish(self._run_layers(self._enter(ids), positions, mask, cache, width), cache, keep, picked)

    def _enter(self, ids: Tensor) -> Tensor:
        """What enters the first of the layers, (B, T, width)."""
        return F.embedding(ids, self.embedding)

    def _run_layers(self, hidden: Tensor, positions: Tensor, mask: Tensor | None, cache: Cache, width: int) -> Tensor:
        """States (B, T, width) before the layers -> after them."""
        if mask is None and hidden.shape[1] > 1:
            mask = build_causal_mask(hidden.shape[1], width, hidden)
        cos, sin, signed = self._compute_angles(hidden, positions, width)
        if self.written:
            if width == 0:
                _begin(cache, self.written, hidden, self.first)
            if mask is not None and mask.is_cpu and mask.shape[2] > SPLIT_MIN and (apart := count_self_seen(mask)) >= SPLIT_MIN:
                mask = mask[..., :-apart]
            across, signed = cos[:, :, None], signed[:, :, None]
            for layer, held in zip(self.written, cache.layers[: len(self.written)], strict=True):
                hidden = layer(hidden, across, signed, mask, held)
        else:
            for layer in self.layers:
                hidden = layer(
                    hidden,
                    attention_mask=mask,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                    position_embeddings=(cos, sin),
                )
        return hidden

    def _finish(self, hidden: Tensor, cache: Cache, keep: int, picked: Tensor | None) -> Tensor:
        """What a pass returns of the states after its layers: logits."""
        return self._compute_logits(hidden, keep, picked)

    def _compute_logits(self, hidden: Tensor, keep: int, picked: Tensor | None = None) -> Tensor:
        self.features = self._normalize(hidden)
        return multiply(select_tokens(self.features, keep, picked), self.head)

    def _normalize(self, hidden: Tensor) -> Tensor:
        norm = self.body.norm
        return apply_rms_norm(hidden, norm.weight, norm.variance_epsilon) if self.written else norm(hidden)

    def _compute_angles(self, hidden: Tensor, positions: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Cosines and sines of the rotary angles, and the sines as layers.rotated takes them, each (B, T, D) in the model's dtype."""
        if not self.tabled:
            return _add_signs(*self.body.rotary_emb(hidden, position_ids=positions))
        needed = width + positions.shape[1]  # a token's position is at most the number of columns before its own
        if needed > len(self.angles):
            places = torch.arange(-(-needed // _GROW) * _GROW, device=positions.device)
            found = _add_signs(*self.body.rotary_emb(hidden, position_ids=places[None]))
            self.angles = torch.cat([table[0] for table in found], -1)
        return self.angles[positions].chunk(3, -1)


def select_tokens(states: Tensor, keep: int, picked: Tensor | None = None) -> Tensor:
    """The last ``keep`` columns of states (B, T, width), (B, keep, width), or of their tokens the picked ones, (1, U, width)."""
    read = states[:, -keep:]
    return read if picked is None else read.reshape(-1, read.shape[-1])[picked][None]


def _begin(cache: Cache, layers: list[FastLayer], hidden: Tensor, first: int) -> None:
    """Give an empty cache its layers, without columns. first: index of the first of them in the whole model."""
    for place, layer in enumerate(layers, first):
        nothing = hidden.new_empty(len(hidden), layer.rotated_heads - layer.heads, 0, layer.size)
        cache.update(nothing, nothing, place)


def _add_signs(cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    first, second = sin.chunk(2, -1)
    return cos, sin, torch.cat((-first, second), -1)
