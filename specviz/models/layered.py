"""A target cut in two for one request: its first layers draft through an exit, the layers above them decide.

Zhang et al. 2024 (Draft & Verify), Elhoushi et al. 2024 (LayerSkip): what the first layers computed for a draft token is right for
its verification too, so that pass runs the layers above alone. Each part has a cache and rolls it back by itself, so layers
below the exit may hold columns that those above it lack; what a part says is a function of the tokens asked about all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM

from specviz.models.attachments.exits import Exit
from specviz.models.cache.decoder import CachedModel
from specviz.models.fast_llama.passes import LlamaPass
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, empty_tree


class LowerLayers(CachedModel):
    """The layers below an exit, as a model that drafts: its distributions are the exit's.

    model  a Llama decoder; it is only read
    """

    def __init__(self, model: LlamaForCausalLM, settings: Settings, vocabulary: int | None, exit_: Exit):
        super().__init__(model, settings, vocabulary)
        self.exit, self._pass = exit_, LowerPass(model, 0, exit_.layer)

    def logits(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        """(B, N + 1, V) in the model's dtype, by the exit."""
        return self.exit.logits(super().logits(rows, block))

    @torch.inference_mode()
    def states(self, rows: Sequence[Prefix], block: DraftTree, last: Sequence[int]) -> Tensor:
        """(B, T, width): what the layers above are given of the last so many tokens of each row, and of the nodes of its block.

        The last tokens stand right-aligned, the nodes behind them left-aligned; what fills the gaps belongs to no token. A
        chain is read as part of the text: of draft tokens that were made here only the last one has not been read yet.
        """
        if block.is_chain:
            longer = [row.with_draft_tokens(tokens) for row, tokens in zip(rows, block.tokens, strict=True)]
            super().logits(longer, empty_tree(len(rows)))
        else:
            super().logits(rows, block)
        lead, nodes, wanted = max(last), block.widest, []
        for held, row, tokens, count in zip(self._rows, rows, block.tokens, last, strict=True):
            columns = [*held.columns, *held.node_columns][len(row.ids) - count :]
            wanted.append([0] * (lead - count) + columns + [0] * (nodes - len(tokens)))
        kept, columns = self._cache.layers[self.exit.layer], torch.tensor(wanted, device=self.device)
        line = torch.arange(len(rows), device=self.device)[:, None]
        return torch.cat([half[line, 0, columns] for half in (kept.keys, kept.values)], -1)


class LayeredModel(CachedModel):
    """A target whose layers above the exit take the states that its first layers have computed, for draft tokens or here.

    lower  the first layers: the source of the draft tokens
    """

    def __init__(self, model: LlamaForCausalLM, settings: Settings, vocabulary: int | None, exit_: Exit):
        self._first = exit_.layer
        super().__init__(model, settings, vocabulary)
        self.lower, self._pass = LowerLayers(model, settings, vocabulary, exit_), UpperPass(model, exit_.layer)

    def _entering(self, ids: Tensor, rows: Sequence[Prefix], fed: list[tuple[int, ...]], block: DraftTree) -> Tensor:
        return self.lower.states(rows, block, [len(fresh) for fresh in fed])

    def _empty(self) -> DynamicCache:
        return UpperCache(self._first)


class LowerPass(LlamaPass):
    """Ids to states after these layers, (B, keep, width).

    All states are kept as one more layer of the cache, one half as its keys and one as its values: so they are rolled back,
    moved and picked like what they were computed with.
    """

    def __call__(self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: DynamicCache, width: int, keep: int) -> Tensor:
        hidden = self._through(F.embedding(ids, self.embedding), positions, mask, cache, width)
        cache.update(*hidden[:, None].chunk(2, -1), len(self.layers))
        return hidden[:, -keep:]


class UpperPass(LlamaPass):
    """States below these layers to logits."""

    def __call__(
        self, states: Tensor, positions: Tensor, mask: Tensor | None, cache: DynamicCache, width: int, keep: int
    ) -> Tensor:
        return self._logits(self._through(states, positions, mask, cache, width), keep)


class UpperCache(DynamicCache):
    """Columns of the layers from ``first`` on; the library's layers name themselves by their place in the whole model."""

    def __init__(self, first: int):
        super().__init__()
        self.first = first

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *more, **others) -> tuple[Tensor, Tensor]:
        return super().update(key_states, value_states, layer_idx - self.first, *more, **others)
