"""A target split in two for one request: its first layers draft through an early exit, the layers above verify.

Zhang et al. 2024 (Draft & Verify), Elhoushi et al. 2024 (LayerSkip). The states of the first layers are also valid for
verification, so the target pass runs only the layers above. Each part has its own cache, which it rolls back by itself, and its
output is a pure function of the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, Gemma3ForCausalLM, PreTrainedModel

from specviz.models.attachments.exits import Exit
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.masks import build_additive_masks, list_attention_windows
from specviz.models.fast_llama.passes import LlamaPass, select_tokens
from specviz.models.few_tokens import copy_for_few_tokens
from specviz.models.processors import Processor
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.threads import PassThreads
from specviz.verification.draft_tree import DraftTree, build_empty_tree


class LowerLayers(CachedModel):
    """The layers of a decoder below an exit as a draft model: its distributions are those of the exit."""

    plain = False

    def __init__(self, model: PreTrainedModel, settings: Settings, vocabulary: int | None, exit_: Exit):
        super().__init__(model, settings, vocabulary)
        self.exit, self._pass = exit_, (LowerGemma3 if is_gemma3(model) else LowerPass)(model, 0, exit_.layer)
        self._threads = PassThreads.for_model(model, ("below", exit_.layer))

    def compute_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) in the model's dtype, from the exit."""
        return self.exit.compute_logits(super().compute_logits(rows, tree))

    @torch.inference_mode()
    def compute_states(self, rows: Sequence[Prefix], tree: DraftTree, last: Sequence[int]) -> Tensor:
        """(B, T, width): the input of the layers above, for the ``last`` tokens of each row and for the nodes of its tree.

        The last tokens are right-aligned, the nodes after them left-aligned; padding fills the gaps. A chain is read as part of
        the text: of the draft tokens made here only the last one has not been read yet.
        """
        if tree.is_chain:
            longer = [row.with_draft_tokens(tokens) for row, tokens in zip(rows, tree.tokens, strict=True)]
            super().compute_logits(longer, build_empty_tree(len(rows)))
        else:
            super().compute_logits(rows, tree)
        lead, nodes, wanted = max(last), tree.widest, []
        for held, row, tokens, count in zip(self._rows, rows, tree.tokens, last, strict=True):
            columns = [*held.columns, *held.node_columns][len(row.ids) - count :]
            wanted.append([0] * (lead - count) + columns + [0] * (nodes - len(tokens)))
        stored, columns = self._cache.layers[self.exit.layer], torch.tensor(wanted, device=self.device)
        line = torch.arange(len(rows), device=self.device)[:, None]
        return torch.cat([half[line, 0, columns] for half in (stored.keys, stored.values)], -1)


class LayeredModel(CachedModel):
    """A target whose layers above the exit reuse the states that its first layers, ``lower``, computed."""

    plain = False

    def __init__(
        self,
        model: PreTrainedModel,
        settings: Settings,
        vocabulary: int | None,
        exit_: Exit,
        processors: Sequence[Processor] = (),
    ):
        self._first = exit_.layer
        super().__init__(model, settings, vocabulary, processors)
        self.lower = LowerLayers(model, settings, vocabulary, exit_)
        self._pass = (UpperGemma3 if is_gemma3(model) else UpperPass)(model, exit_.layer)
        self._threads = PassThreads.for_model(model, ("above", exit_.layer))

    def _embed_inputs(self, ids: Tensor, rows: Sequence[Prefix], fed: list[tuple[int, ...]], tree: DraftTree) -> Tensor:
        return self.lower.compute_states(rows, tree, [len(fresh) for fresh in fed])

    def _create_cache(self) -> DynamicCache:
        return UpperCache(self._first)


class Gemma3Pass(LlamaPass):
    """The layers of a Gemma 3 decoder one after the other, in the library's code."""

    def __init__(self, model: Gemma3ForCausalLM, first: int = 0, last: int | None = None):
        self.keeps_features, self.picks, self.features, self.written = True, False, torch.empty(0), []
        fast = copy_for_few_tokens(model)
        self.body, self.head = fast.model, fast.get_output_embeddings()
        self.layers, self.kinds = list(self.body.layers)[first:last], model.config.layer_types[first:last]
        self.windows = list_attention_windows(model.config)

    def _enter(self, ids: Tensor) -> Tensor:
        return self.body.embed_tokens(ids)

    def _run_layers(self, hidden: Tensor, positions: Tensor, mask: Tensor | dict | None, cache: Cache, width: int) -> Tensor:
        if mask is None:  # every column is seen from its own place on
            where = torch.arange(width + hidden.shape[1]).expand(len(hidden), -1)
            seen = where[:, None] <= positions.cpu()[:, :, None]
            mask = build_additive_masks(seen, where, positions.cpu(), self.windows, hidden.dtype, hidden.device)
        angles = {kind: self.body.rotary_emb(hidden, positions, kind) for kind in set(self.kinds)}
        for layer, kind in zip(self.layers, self.kinds, strict=True):
            hidden = layer(
                hidden,
                attention_mask=mask[kind] if isinstance(mask, dict) else mask,
                position_ids=positions,
                past_key_values=cache,
                position_embeddings=angles[kind],
            )
        return hidden


class LowerPass(LlamaPass):
    """Ids to states after these layers, (B, keep, width).

    All states are stored as one more layer of the cache, one half as its keys and the other as its values, so they are rolled
    back, moved and selected together with the keys and values.
    """

    def _finish(self, hidden: Tensor, cache: Cache, keep: int, picked: Tensor | None) -> Tensor:
        cache.update(*hidden[:, None].chunk(2, -1), len(self.layers))
        return select_tokens(hidden, keep, picked)


class UpperPass(LlamaPass):
    """States before these layers to logits."""

    def _enter(self, ids: Tensor) -> Tensor:
        """Nothing is embedded: the states are given in place of ids."""
        return ids


class LowerGemma3(LowerPass, Gemma3Pass):
    """The first layers of a Gemma 3 decoder."""


class UpperGemma3(UpperPass, Gemma3Pass):
    """The last layers of a Gemma 3 decoder."""


def is_gemma3(model: PreTrainedModel) -> bool:
    """Whether the layers are those of Gemma 3, else of Llama."""
    return isinstance(model, Gemma3ForCausalLM)


class UpperCache(DynamicCache):
    """Columns of the layers from ``first`` on. The library's layers pass their index in the whole model."""

    def __init__(self, first: int):
        super().__init__()
        self.first = first

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return super().update(key_states, value_states, layer_idx - self.first, *args, **kwargs)
