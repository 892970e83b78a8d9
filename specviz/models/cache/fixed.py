"""A decoder whose cache is set aside before the first token, so that every pass has the same shapes.

The column of a token is its position. A pass reads a few tokens from column ``begin`` on; they see every column before it, and of
the columns they write themselves those that a fixed table says. So a row is rolled back by giving a smaller ``begin``, and a mask
is made from the rows' lengths on the device. Nothing is read back, nothing grows, and the whole pass can be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from specviz.models.cache.masks import attention_windows, lowest_value
from specviz.settings import Settings
from specviz.threads import FEW, PassThreads
from specviz.verification.warp import pad_vocabulary, warp_tensors


@dataclass(frozen=True, slots=True)
class PassTokens:
    """Which tokens a pass reads, counted from each row's first column ``begin``. All on the model's device.

    columns  (T,) int64: where each token is written
    depths   (T,) int64: its position
    seen     (T, W) bool: which of the columns 0 to W - 1 it sees; it sees all columns before ``begin``
    places   (W,) int64: positions of the tokens in these columns
    """

    columns: Tensor
    depths: Tensor
    seen: Tensor
    places: Tensor

    @classmethod
    def chain(cls, count: int, device: torch.device) -> PassTokens:
        """The next ``count`` tokens of the text; each sees those before it and itself."""
        steps = torch.arange(count, device=device)
        return cls(steps, steps, torch.ones(count, count, dtype=torch.bool, device=device).tril(), steps)


class FixedLayer(CacheLayerMixin):
    """Keys and values of one layer for B rows of S columns. ``columns`` (B, T) says where the next tokens are written."""

    is_compileable = True
    is_sliding = False

    def __init__(self, keys: Tensor, values: Tensor):
        super().__init__()
        self.keys, self.values, self.columns = keys, values, torch.empty(0)
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        for whole, fresh in ((self.keys, key_states), (self.values, value_states)):
            whole.scatter_(2, self.columns[:, None, :, None].expand_as(fresh), fresh)
        return self.keys, self.values

    def move(self, sources: Tensor, columns: Tensor) -> None:
        """Copy columns within each row, (B, K) each."""
        for whole in (self.keys, self.values):
            index = sources[:, None, :, None].expand(-1, whole.shape[1], -1, whole.shape[3])
            whole.scatter_(2, columns[:, None, :, None].expand_as(index), whole.gather(2, index))

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the memory is there."""

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.keys.shape[2], 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return self.keys.shape[2]


class FixedModel:
    """A causal language model with the sampling settings of one request, for B rows of at most S tokens.

    model     a decoder whose attention layers store plain keys and values, and whose positions reach it as ids; read-only
    rows      B
    columns   S: tokens of a row's text and of the draft tokens after it
    """

    def __init__(self, model: PreTrainedModel, settings: Settings, vocabulary: int, rows: int, columns: int):
        text = model.config.get_text_config()
        self.model, self.settings, self.vocabulary = model, settings, vocabulary
        self.device, self.dtype = model.device, model.dtype
        self._known: int = text.vocab_size
        self._last: int = (getattr(text, "max_position_embeddings", None) or columns) - 1
        self._windows = attention_windows(text)
        self._cache = self._set_aside(rows, columns)
        self._every = torch.arange(columns, device=self.device)

    @property
    def bytes_per_row(self) -> int:
        """Memory of one row's keys and values. It does not change."""
        return sum(whole[0].nbytes for layer in self._cache.layers for whole in (layer.keys, layer.values))

    @torch.inference_mode()
    def _set_aside(self, rows: int, columns: int) -> Cache:
        """The cache. One token is read to learn what each layer stores."""
        probe = self._read([0])
        return Cache(
            layers=[
                FixedLayer(*(part.new_zeros(rows, part.shape[1], columns, part.shape[3]) for part in (layer.keys, layer.values)))
                for layer in probe.layers
            ]
        )

    def _read(self, ids: Sequence[int]) -> DynamicCache:
        """The keys and values of a text, in a cache of its own."""
        cache = DynamicCache()
        tokens = torch.tensor([ids], device=self.device).clamp(max=self._known - 1)
        self.model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return cache

    @torch.inference_mode()
    def read(self, row: int, ids: Sequence[int]) -> None:
        """Read a text, at least one token, into the first columns of a row."""
        PassThreads.for_model(self.model).prepare(FEW, lambda: self._read(ids[:FEW]))  # here, because ``probs`` may be compiled
        for layer, found in zip(self._cache.layers, self._read(ids).layers, strict=True):
            layer.keys[row, :, : len(ids)], layer.values[row, :, : len(ids)] = found.keys[0], found.values[0]

    @torch.inference_mode()
    def copy(self, source: int, row: int) -> None:
        """Give a row all columns of another."""
        for layer in self._cache.layers:
            for whole in (layer.keys, layer.values):
                whole[row] = whole[source]

    def probs(self, tokens: Tensor, begin: Tensor, fed: PassTokens) -> tuple[Tensor, Tensor]:
        """The distributions (B, T, V) float64 after each of the tokens read, and (B, T): finite where the logits could be used.

        tokens  (B, T) int64
        begin   (B,) int64, at least 0: every row's tokens before this column have been read
        """
        for layer in self._cache.layers:
            layer.columns = begin[:, None] + fed.columns
        positions = (begin[:, None] + fed.depths).clamp(max=self._last)
        out = self.model(
            input_ids=tokens.clamp(max=self._known - 1),
            position_ids=positions,
            attention_mask=self._mask(begin, fed, positions),
            past_key_values=self._cache,
            use_cache=True,
        )
        probs, sample = warp_tensors(out.logits, self.settings)
        return pad_vocabulary(probs, self.vocabulary), sample

    def move(self, sources: Tensor, columns: Tensor) -> None:
        """Copy columns within each row, (B, K) int64 each."""
        for layer in self._cache.layers:
            layer.move(sources, columns)

    def _mask(self, begin: Tensor, fed: PassTokens, positions: Tensor) -> Tensor | dict[str, Tensor]:
        """Additive mask (B, 1, T, S); a dict of them where there are several kinds of layers."""
        offset = self._every - begin[:, None]  # (B, S): column counted from ``begin``
        own = (offset >= 0) & (offset < fed.seen.shape[1])
        place = offset.clamp(0, fed.seen.shape[1] - 1)
        seen = torch.where(own[:, None], fed.seen.t()[place].transpose(1, 2), (offset < 0)[:, None])
        where = torch.where(own, begin[:, None] + fed.places[place], self._every)
        masks = {}
        for kind, window in self._windows.items():
            near = seen if window is None else seen & (where[:, None] > positions[:, :, None] - window)
            masks[kind] = torch.where(near, 0.0, lowest_value(self.dtype))[:, None].to(self.dtype)
        return masks if len(masks) > 1 else next(iter(masks.values()))
