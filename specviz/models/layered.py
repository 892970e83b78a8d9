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
from transformers import Cache, DynamicCache, LlamaForCausalLM

from specviz.models.attachments.exits import Exit
from specviz.models.cache.decoder import CachedModel
from specviz.models.fast_llama.passes import LlamaPass, select_tokens
from specviz.models.processors import Processor
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.threads import PassThreads
from specviz.verification.draft_tree import DraftTree, build_empty_tree


class LowerLayers(CachedModel):
    """The layers of a Llama decoder below an exit as a draft model: its distributions are those of the exit."""

    plain = False

    def __init__(self, model: LlamaForCausalLM, settings: Settings, vocabulary: int | None, exit_: Exit):
        super().__init__(model, settings, vocabulary)
        self.exit, self._pass = exit_, LowerPass(model, 0, exit_.layer)
        self._threads = PassThreads.for_model(model, ("below", exit_.layer))

    def logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) in the model's dtype, from the exit."""
        return self.exit.logits(super().logits(rows, tree))

    @torch.inference_mode()
    def states(self, rows: Sequence[Prefix], tree: DraftTree, last: Sequence[int]) -> Tensor:
        """(B, T, width): the input of the layers above, for the ``last`` tokens of each row and for the nodes of its tree.

        The last tokens are right-aligned, the nodes after them left-aligned; padding fills the gaps. A chain is read as part of
        the text: of the draft tokens made here only the last one has not been read yet.
        """
        if tree.is_chain:
            longer = [row.with_draft_tokens(tokens) for row, tokens in zip(rows, tree.tokens, strict=True)]
            super().logits(longer, build_empty_tree(len(rows)))
        else:
            super().logits(rows, tree)
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
        model: LlamaForCausalLM,
        settings: Settings,
        vocabulary: int | None,
        exit_: Exit,
        processors: Sequence[Processor] = (),
    ):
        self._first = exit_.layer
        super().__init__(model, settings, vocabulary, processors)
        self.lower, self._pass = LowerLayers(model, settings, vocabulary, exit_), UpperPass(model, exit_.layer)
        self._threads = PassThreads.for_model(model, ("above", exit_.layer))

    def _embed_inputs(self, ids: Tensor, rows: Sequence[Prefix], fed: list[tuple[int, ...]], tree: DraftTree) -> Tensor:
        return self.lower.states(rows, tree, [len(fresh) for fresh in fed])

    def _create_cache(self) -> DynamicCache:
        return UpperCache(self._first)


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


class UpperCache(DynamicCache):
    """Columns of the layers from ``first`` on. The library's layers pass their index in the whole model."""

    def __init__(self, first: int):
        super().__init__()
        self.first = first

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *more: Any, **others: Any
    ) -> tuple[Tensor, Tensor]:
        return super().update(key_states, value_states, layer_idx - self.first, *more, **others)
