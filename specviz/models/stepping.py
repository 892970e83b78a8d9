"""A model that is asked for one more token after another, as drafts are.

A step of a one-layer draft is some forty operations of a few microseconds each, and nearly as long again goes into finding out
what is asked for, what is held, and who sees what. Where one text goes on by one token there is nothing to find out. And what a
first layer computes before it looks back, the norm and the projections, depends on the token alone: it is read from a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel
from transformers.cache_utils import Cache

from specviz.coins import Prefix
from specviz.models.cached import CachedModel
from specviz.models.passes import LlamaPass
from specviz.models.products import product
from specviz.models.written import WrittenLayer, normed
from specviz.settings import Settings
from specviz.verification.block import Block

TABLE_MAX = 64 * 2**20  # bytes of a table; a larger one is not made
_PIECE = 1024  # tokens of a table that are computed together
_tables: WeakKeyDictionary = WeakKeyDictionary()  # model -> table
_making = Lock()


class SteppingModel(CachedModel):
    """A causal model opened for one request, with a short way to the law after one more token of one text.

    The laws are those of CachedModel, up to rounding.
    """

    def __init__(self, model: PreTrainedModel, settings: Settings, vocabulary: int | None = None):
        super().__init__(model, settings, vocabulary)
        short = type(model) is LlamaForCausalLM and StepPass(model)
        if short and short.steps:
            self._pass = short

    @torch.inference_mode()
    def logits(self, rows: Sequence[Prefix], block: Block) -> Tensor:
        """As CachedModel's."""
        if len(rows) == 1 and isinstance(self._pass, StepPass) and not block.tokens[0] and self._goes_on(rows[0]):
            return self._pass.step(min(rows[0].ids[-1], self._known - 1), self._cache, self._width - 1)
        return super().logits(rows, block)

    def _goes_on(self, row: Prefix) -> bool:
        """Whether all but the last token is held; then the cache is cut to that, and the last is counted in.

        The columns of a row alone have no holes once it has been asked without a block (CachedModel._rollback).
        """
        before = len(row.ids) - 1
        if len(self._rows) != 1 or self._width < before or not before:
            return False
        (held,) = self._rows
        if held.node_tokens or tuple(held.tokens[:before]) != row.ids[:before]:
            return False
        if self._width > before:
            self._cache.crop(before - self._width)
        held.draw, held.tokens[before:], held.columns[before:] = row.draw, row.ids[before:], (before,)
        self._width = before + 1
        return True


class StepPass(LlamaPass):
    """A LlamaPass that also goes on by a single token.

    steps  whether it can: where the layers are written out, and angles depend on the position alone
    """

    def __init__(self, model: LlamaForCausalLM):
        super().__init__(model)
        self.steps = bool(self.written) and self.tabled and not self.written[0].wide
        self.table = _table(model, self) if self.steps else None
        self.width = model.config.hidden_size

    def step(self, token: int, cache: Cache, width: int) -> Tensor:
        """Logits (1, 1, V) after one more token behind ``width`` columns, at least one; the cache grows by one column."""
        if self.table is None:
            hidden, every = self.embedding[token].view(1, 1, -1), None
        else:
            hidden, every = (
                part.view(1, 1, -1) for part in self.table[token].split((self.width, self.table.shape[1] - self.width))
            )
        if width >= len(self.angles):
            self._angles(hidden, torch.tensor([[width]], device=hidden.device), width)
        cos, _, signed = self.angles[width].view(3, 1, 1, 1, -1)
        for layer, held in zip(self.written, cache.layers, strict=True):
            hidden, every = layer(hidden, cos, signed, None, held, every), None
        return self._logits(hidden, 1)


def _table(model: LlamaForCausalLM, way: LlamaPass) -> Tensor | None:
    """(V, width + out): each token's embedding, and what the first layer projects of it. Made once for a model; None: too large."""
    with _making:
        if model not in _tables:
            first, embedding = way.written[0], way.embedding.detach()
            probe = product(normed(embedding[:1], first.first, first.epsilon)[None], first.all)
            wide = embedding.shape[1] + probe.shape[-1]
            _tables[model] = _joined(embedding, first) if len(embedding) * wide * embedding.element_size() <= TABLE_MAX else None
        return _tables[model]


@torch.inference_mode()
def _joined(embedding: Tensor, layer: WrittenLayer) -> Tensor:
    pieces = [product(normed(piece, layer.first, layer.epsilon)[None], layer.all)[0] for piece in embedding.split(_PIECE)]
    return torch.cat([embedding, torch.cat(pieces)], 1)
