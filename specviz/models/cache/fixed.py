"""A decoder whose cache is allocated before the first token, so that every pass has the same shapes.

The column of a token is its position. A pass reads a few tokens from column ``begin`` on; they see every column before it, and of
the columns they write themselves those that a fixed table says. So a row is rolled back by giving a smaller ``begin``, and a mask
is made from the rows' lengths on the device. Nothing is read back, nothing grows, and the whole pass can be compiled and captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from specviz.errors import ModelError
from specviz.models.cache.masks import find_lowest_value, list_attention_windows
from specviz.models.fast_llama.fixed_pass import FixedPass, is_covered
from specviz.settings import Settings
from specviz.threads import FEW, PassThreads
from specviz.verification.warp import pad_vocabulary, warp_tensors

READ_MAX = 512  # tokens of a text that is read in one pass with a mask; a longer text is read by the library, which needs none


class PassTokens(NamedTuple):
    """Which tokens a pass reads, counted from each row's first column ``begin``. All on the model's device.

    Attributes:
        columns: (T,) int64, where each token is written.
        depths: (T,) int64, its position.
        seen: (T, W) bool, which of the columns 0 to W - 1 it sees; it sees all columns before ``begin``.
        places: (W,) int64, positions of the tokens in these columns.
    """

    columns: Tensor
    depths: Tensor
    seen: Tensor
    places: Tensor

    @classmethod
    def build_chain(cls, count: int, device: torch.device) -> PassTokens:
        """The next ``count`` tokens of the text; each sees those before it and itself."""
        steps = torch.arange(count, device=device)
        return cls(steps, steps, torch.ones(count, count, dtype=torch.bool, device=device).tril(), steps)


class MaskTable(NamedTuple):
    """Additive masks of a pass over T tokens in a cache of S columns, by a column's distance from the row's first column ``begin``.

    Attributes:
        values: (2 S T,) for each kind of layer: for each token, the columns from S before ``begin`` to S - 1 behind it.
        lines: (T G, 1) int64, where each token's values begin, once for each of G query heads that read the same keys.
    """

    values: dict[str, Tensor]
    lines: Tensor

    def select(self, distances: Tensor) -> dict[str, Tensor]:
        """Masks (B, 1, T G, S). distances: (B, S) int64, columns counted from S before each row's ``begin``."""
        index = (self.lines + distances[:, None])[:, None]
        return {kind: values[index] for kind, values in self.values.items()}


class FixedLayer(CacheLayerMixin):
    """Keys and values of one layer for B rows of S columns, for the library's own passes.

    Attributes:
        stored: Keys and values, (B, S, K, D) each, or joined, (B, S, 2 K, D); ``keys`` and ``values`` are views, (B, K, S, D).
        index: (B T,) int64, where the next tokens are written: row times S plus column.
    """

    is_compileable = True
    is_sliding = False

    def __init__(self, *stored: Tensor):
        super().__init__()
        self.stored, self.index = stored, torch.empty(0)
        keys, values = stored if len(stored) == 2 else stored[0].chunk(2, 2)
        self.keys, self.values = keys.transpose(1, 2), values.transpose(1, 2)
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        for whole, fresh in zip((self.keys, self.values), (key_states, value_states), strict=True):
            whole.transpose(1, 2).flatten(0, 1).index_copy_(0, self.index, fresh.transpose(1, 2).flatten(0, 1))
        return self.keys, self.values

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the memory is allocated."""

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.keys.shape[2], 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return self.keys.shape[2]


class FixedModel:
    """A causal language model with the sampling settings of one request, for B rows of at most S tokens.

    Args:
        model: A decoder whose attention layers store plain keys and values, and whose positions reach it as ids; read-only.
        settings: How logits become distributions.
        vocabulary: V, at least the model's own.
        rows: B.
        columns: S, tokens of a row's text and of the draft tokens after it.

    Raises:
        ModelError: The cache does not fit into the device's memory.
    """

    def __init__(self, model: PreTrainedModel, settings: Settings, vocabulary: int, rows: int, columns: int):
        text = model.config.get_text_config()
        self.model, self.settings, self.vocabulary = model, settings, vocabulary
        self.device, self.dtype = model.device, model.dtype
        self._known: int = text.vocab_size
        self._last: int = (getattr(text, "max_position_embeddings", None) or columns) - 1
        self._windows = list_attention_windows(text)
        is_written_here = is_covered(model) and len(self._windows) == 1
        self._cache = self._allocate(rows, columns, is_written_here)
        self._distances = torch.arange(columns, 2 * columns, device=self.device)
        self._tables: dict[int, tuple[PassTokens, MaskTable]] = {}
        self._starts = torch.arange(rows, device=self.device)[:, None] * columns
        self._pass = self._open_pass(columns) if is_written_here else None

    @torch.inference_mode()
    def _open_pass(self, columns: int) -> FixedPass:
        return FixedPass(self.model, columns, self._last)

    def compile(self, compiler: dict[str, Any]) -> None:
        """Compile the parts of a pass: a layer once for all, or the library's whole pass where the family is not covered."""
        if self._pass is None:
            self._run_library = torch.compile(self._run_library, fullgraph=True, dynamic=False, **compiler)  # type: ignore[method-assign]
            return
        self._pass.compile(compiler)
        self._prepare, self._finish = (  # type: ignore[method-assign]
            torch.compile(part, fullgraph=True, dynamic=False, **compiler) for part in (self._prepare, self._finish)
        )

    @torch.inference_mode()
    def _allocate(self, rows: int, columns: int, joins: bool) -> Cache:
        """The cache, keys and values of a layer in one tensor or in two. One token is read to learn what each layer stores."""
        probe = self._read([0])
        needed = rows * columns * sum(part.nbytes for layer in probe.layers for part in (layer.keys, layer.values))
        if self.device.type == "cuda" and needed > (free := torch.cuda.mem_get_info(self.device)[0]):
            raise ModelError(
                f"The keys and values of {rows} rows of {columns} tokens take {needed:,} bytes; {free:,} are free on this GPU."
            )
        parts = [[torch.cat([one.keys, one.values], 1)] if joins else [one.keys, one.values] for one in probe.layers]
        return Cache(
            layers=[FixedLayer(*(one.new_zeros(rows, columns, one.shape[1], one.shape[3]) for one in layer)) for layer in parts]
        )

    @property
    def _joined(self) -> list[Tensor]:
        """Keys and values of each layer as ``FixedPass`` takes them."""
        return [layer.stored[0] for layer in self._cache.layers]

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
        if self._pass is not None and len(ids) <= READ_MAX:
            fed = PassTokens.build_chain(len(ids), self.device)
            tokens = torch.tensor([ids], device=self.device).clamp(max=self._known - 1)
            mask, *_ = self._build_table(fed, len(ids)).select(fed.columns[None] + len(ids)).values()
            hidden, inputs = self._pass.prepare(tokens, fed.depths.clamp(max=self._last), mask, fed.columns)
            lines = [whole[row : row + 1, : len(ids)] for whole in self._joined]
            self._pass.run_layers(hidden, inputs, lines, is_compiled=False)
            return
        for layer, found in zip(self._cache.layers, self._read(ids).layers, strict=True):
            layer.keys[row, :, : len(ids)], layer.values[row, :, : len(ids)] = found.keys[0], found.values[0]

    def read_chunk(self, tokens: Tensor, begin: Tensor, fed: PassTokens) -> None:
        """Read tokens of a text into every row, in a pass whose shapes are fixed, so that it can be recorded. Arguments as for ``probs``."""
        table = self._find_table(fed)
        if self._pass is None:
            type(self)._run_library(self, tokens, begin, fed, table)
            return
        hidden, inputs = type(self)._prepare(self, tokens, begin, fed, table)  # as written: compiling for it does not pay
        self._pass.run_layers(hidden, inputs, self._joined, is_compiled=False)

    @torch.inference_mode()
    def copy(self, source: int, row: int) -> None:
        """Give a row all columns of another."""
        for layer in self._cache.layers:
            for whole in layer.stored:
                whole[row] = whole[source]

    def compute_probs(self, tokens: Tensor, begin: Tensor, fed: PassTokens) -> tuple[Tensor, Tensor]:
        """The distributions (B, T, V) float64 after each of the tokens read, and (B, T): finite where the logits could be used.

        Args:
            tokens: (B, T) int64.
            begin: (B,) int64, at least 0: every row's tokens before this column have been read.
            fed: Columns and positions of the tokens, and what they see.
        """
        table = self._find_table(fed)
        if self._pass is None:
            return self._warp(self._run_library(tokens, begin, fed, table))
        hidden, inputs = self._prepare(tokens, begin, fed, table)
        hidden = self._pass.run_layers(hidden, inputs, self._joined)
        return self._finish(hidden, len(tokens))

    def _prepare(self, tokens: Tensor, begin: Tensor, fed: PassTokens, table: MaskTable) -> tuple[Tensor, Any]:
        assert self._pass is not None, "only covered families come here"
        positions = (begin[:, None] + fed.depths).clamp(max=self._last)
        (mask,) = table.select(self._distances - begin[:, None]).values()
        return self._pass.prepare(tokens.clamp(max=self._known - 1), positions, mask, self._index(begin, fed.columns))

    def _finish(self, hidden: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        assert self._pass is not None, "only covered families come here"
        return self._warp(self._pass.compute_logits(hidden).unflatten(0, (rows, -1)))

    def _run_library(self, tokens: Tensor, begin: Tensor, fed: PassTokens, table: MaskTable) -> Tensor:
        index = self._index(begin, fed.columns)
        for layer in self._cache.layers:
            layer.index = index
        positions = (begin[:, None] + fed.depths).clamp(max=self._last)
        masks = table.select(self._distances - begin[:, None])
        out = self.model(
            input_ids=tokens.clamp(max=self._known - 1),
            position_ids=positions,
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            past_key_values=self._cache,
            use_cache=True,
        )
        return out.logits

    def _warp(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        probs, sample = warp_tensors(logits, self.settings)
        return pad_vocabulary(probs, self.vocabulary), sample

    def _index(self, begin: Tensor, columns: Tensor) -> Tensor:
        """Lines of the columns ``begin`` plus ``columns`` in the flattened cache, (B T,)."""
        return (self._starts + begin[:, None] + columns).flatten()

    def move(self, sources: Tensor, columns: Tensor) -> None:
        """Copy columns within each row, (B, K) int64 each."""
        read, written = (self._starts + sources).flatten(), (self._starts + columns).flatten()
        for layer in self._cache.layers:
            for whole in layer.stored:
                flat = whole.flatten(0, 1)
                flat.index_copy_(0, written, flat.index_select(0, read))

    def _find_table(self, fed: PassTokens) -> MaskTable:
        """The masks of a pass over these tokens, made when they are first read."""
        if id(fed) not in self._tables:
            self._tables[id(fed)] = (
                fed,
                self._build_table(fed, len(self._distances)),
            )  # with ``fed``, so that its id stays its own
        return self._tables[id(fed)][1]

    def _build_table(self, fed: PassTokens, columns: int) -> MaskTable:
        """The masks of a pass in a cache of so many columns."""
        distance = torch.arange(-columns, columns, device=self.device)
        own = (distance >= 0) & (distance < fed.seen.shape[1])
        place = distance.clamp(0, fed.seen.shape[1] - 1)
        seen, position = torch.where(own, fed.seen[:, place], distance < 0), torch.where(own, fed.places[place], distance)
        values = {}
        for kind, window in self._windows.items():
            near = seen if window is None else seen & (position > fed.depths[:, None] - window)
            values[kind] = torch.where(near, 0.0, find_lowest_value(self.dtype)).to(self.dtype).flatten()
        lines = torch.arange(len(fed.columns), device=self.device) * 2 * columns
        return MaskTable(values, lines.repeat_interleave(1 if self._pass is None else self._pass.group)[:, None])
