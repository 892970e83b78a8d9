"""A model that is asked for one token after another, as a draft model is.

A step of a one-layer draft is about forty operations of a few microseconds each. Working out what is asked, what is cached and
which token sees which takes nearly as long again. If one text grows by one token, none of that is needed. The same holds if it
grows by two, as after a round in which every draft token was accepted: the last of them has not been read yet. What the first layer
computes before attention, the norm and the projections, depends only on the token, so it is read from a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import LlamaForCausalLM
from transformers.cache_utils import Cache

from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.masks import build_causal_mask
from specviz.models.fast_llama.layers import FastLayer, apply_rms_norm
from specviz.models.fast_llama.passes import LlamaPass
from specviz.models.fast_llama.products import multiply
from specviz.randomness import Prefix
from specviz.verification.draft_tree import DraftTree

TABLE_MAX = 64 * 2**20  # bytes of a table; larger ones are not made
STEP = 2  # most tokens of a step
_PIECE = 1024  # tokens of a table that are computed together
_tables: WeakKeyDictionary = WeakKeyDictionary()  # model -> table
_making = Lock()


class SteppingModel(CachedModel):
    """A causal model opened for one request, with a fast way to the distribution after one or two more tokens of one text.

    The distributions are those of CachedModel, up to rounding.
    """

    def _open_pass(self) -> Any:
        short = type(self.model) is LlamaForCausalLM and StepPass(self.model)
        return short if short and short.steps else super()._open_pass()

    @torch.inference_mode()
    def compute_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """As CachedModel's."""
        if (
            len(rows) == 1
            and isinstance(self._pass, StepPass)
            and not tree.tokens[0]
            and (fresh := self._continues_last_step(rows[0]))
        ):
            known = [min(token, self._known - 1) for token in fresh]
            forward = partial(self._pass.step, known, self._cache, self._width - len(fresh))
            return self._threads.run(len(known), forward, lambda: self._probe(torch.tensor([known], device=self.device)))
        return super().compute_logits(rows, tree)

    def _continues_last_step(self, row: Prefix) -> tuple[int, ...]:
        """The last one or two tokens of a row if everything before them is cached, else nothing.

        If so, the cache is cropped to what is before them, and they are recorded as held. A single row has no holes once it was
        asked without a tree (CachedModel._rollback).
        """
        if len(self._rows) != 1:
            return ()
        (held,) = self._rows
        before = min(self._width, len(held.tokens), len(row.ids) - 1)
        fresh = row.ids[before:]
        if not before or len(fresh) > STEP or held.node_tokens or tuple(held.tokens[:before]) != row.ids[:before]:
            return ()
        if self._width > before:
            self._cache.crop(before - self._width)
        self._width = len(row.ids)
        held.draws, held.tokens[before:], held.columns[before:] = (row.draw,), fresh, range(before, self._width)
        held.fresh = len(fresh)
        return fresh


class StepPass(LlamaPass):
    """A LlamaPass that can also take a step of one or two tokens.

    steps  whether it can: its layers are those of layers.py, and angles depend only on the position
    """

    def __init__(self, model: LlamaForCausalLM):
        super().__init__(model)
        self.steps = bool(self.written) and self.tabled and not self.written[0].in_float64
        self.table = _find_table(model, self) if self.steps else None
        self.width = model.config.hidden_size

    def step(self, tokens: Sequence[int], cache: Cache, width: int) -> Tensor:
        """Logits (1, 1, V) after these tokens, at least one, which follow ``width`` columns. The cache grows by their columns."""
        count, mask = len(tokens), None
        read = (self.embedding if self.table is None else self.table)[tokens[0] if count == 1 else list(tokens)].view(
            1, count, -1
        )
        hidden, every = (read, None) if self.table is None else (read[..., : self.width], read[..., self.width :])
        if width + count > len(self.angles):
            self._compute_angles(hidden, torch.arange(width, width + count, device=hidden.device)[None], width)
        if count > 1:
            mask = build_causal_mask(count, width, hidden)
        cos, _, signed = self.angles[width : width + count].view(1, count, 3, 1, -1).unbind(2)
        for layer, held in zip(self.written, cache.layers, strict=True):
            hidden, every = layer(hidden, cos, signed, mask, held, every), None
        return self._compute_logits(hidden, 1)


def _find_table(model: LlamaForCausalLM, llama_pass: LlamaPass) -> Tensor | None:
    """(V, width + out): each token's embedding and its projections in the first layer. Made once for a model; None: too large."""
    with _making:
        if model not in _tables:
            first, embedding = llama_pass.written[0], llama_pass.embedding.detach()
            probe = multiply(apply_rms_norm(embedding[:1], first.first, first.epsilon)[None], first.all)
            wide = embedding.shape[1] + probe.shape[-1]
            _tables[model] = (
                _join_embedding(embedding, first) if len(embedding) * wide * embedding.element_size() <= TABLE_MAX else None
            )
        return _tables[model]


@torch.inference_mode()
def _join_embedding(embedding: Tensor, layer: FastLayer) -> Tensor:
    pieces = [
        multiply(apply_rms_norm(piece, layer.first, layer.epsilon)[None], layer.all)[0] for piece in embedding.split(_PIECE)
    ]
    return torch.cat([embedding, torch.cat(pieces)], 1)
