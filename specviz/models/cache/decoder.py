"""A transformers decoder with a KV cache, opened for one request.

``compute_distributions`` is a pure function of its rows and tree. Each call rolls the cache back to what it shares with the given
prefixes, including a path through the last tree, and feeds the missing tokens and the tree's nodes in one pass. No other file
changes a cache.

A row's tokens may lie in any columns, in order, with holes between them (ragged batches, trees). Masks and position ids are built
from positions, not columns. Keys are rotated by position, so columns may be moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from specviz.models.attention import avoid_shape_plans
from specviz.models.cache.fixed import FixedModel
from specviz.models.cache.masks import build_additive_masks, build_tree_mask, list_attention_windows
from specviz.models.fast_llama.passes import open_pass
from specviz.models.processors import Processor, process_logits
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.threads import PROBE_TOKENS, PassThreads
from specviz.verification.draft_tree import (
    ROOT,
    DraftTree,
    build_ancestor_mask,
    build_empty_tree,
    build_token_tree,
    compute_node_depths,
    find_children,
    list_node_texts,
)
from specviz.verification.warp import pad_vocabulary, warp

LARGE_VOCABULARY = 2**14  # above it, distributions that are asked for twice are computed once, and evidence draws fewer samples


@dataclass(slots=True)
class _Row:
    """What the cache holds for one row: its tokens with their columns, how many of them the last pass read, and its tree's nodes."""

    draws: tuple[int, ...] = ()  # of the rows whose text this is
    tokens: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    node_tokens: tuple[int, ...] = ()
    node_parents: tuple[int, ...] = ()
    node_columns: list[int] = field(default_factory=list)
    fresh: int = 0

    def keep(self, ids: tuple[int, ...]) -> None:
        """Forget everything but the common beginning with ``ids``. At least the last token of ``ids`` stays to be fed."""
        held = len(self.tokens)
        if tuple(self.tokens) == ids[:held]:
            node = ROOT
            while len(self.tokens) < len(ids) - 1:
                node = self._find_child(node, ids[len(self.tokens)])
                if node == ROOT:
                    break
                self.tokens.append(self.node_tokens[node])
                self.columns.append(self.node_columns[node])
        shared = min(_count_shared(self.tokens, ids), len(ids) - 1)
        del self.tokens[shared:], self.columns[shared:]
        self.node_tokens, self.node_parents, self.node_columns = (), (), []

    def place(self, ids: tuple[int, ...]) -> int | None:
        """Index of the state after ``ids`` in the last pass; None: not there.

        It is 0 after the prefix, below 0 after the tokens read before its last, 1 + i after node i.
        """
        held = len(self.tokens)
        if len(ids) < held:
            back = len(ids) - held
            return back if back > -self.fresh and tuple(self.tokens[:back]) == ids else None
        if tuple(self.tokens) != ids[:held]:
            return None
        node = ROOT
        for token in ids[held:]:
            node = self._find_child(node, token)
            if node == ROOT:
                return None
        return node + 1

    def copy(self) -> _Row:
        """An independent copy."""
        return replace(self, tokens=[*self.tokens], columns=[*self.columns], node_columns=[*self.node_columns])

    def _find_child(self, node: int, token: int) -> int:
        return next((c for c in find_children(self.node_parents, node) if self.node_tokens[c] == token), ROOT)


class CachedModel:
    """A causal language model with the sampling settings of one request.

    Args:
        model: Any transformers causal decoder whose attention layers store plain keys and values; read-only.
        settings: Temperature, top-k, top-p, min-p: ``warp`` turns logits into the distribution.
        vocabulary: V, at least the model's own; ids that the model lacks have probability 0.
        processors: Change the logits before they are warped, each a pure function of the text and its logits.
    """

    plain = True  # whether the library's own pass through the whole model gives the distributions, as ``fixed`` needs
    has_position_bias = False  # whether a mask also holds the attention bias for the distance between two tokens

    def __init__(
        self,
        model: PreTrainedModel,
        settings: Settings,
        vocabulary: int | None = None,
        processors: Sequence[Processor] = (),
    ):
        self.model, self.settings, self.processors = model, settings, processors
        self.plain = self.plain and not processors
        self.device = model.device  # the library searches the weights for it at every access
        text = model.config.get_text_config()
        self._known: int = text.vocab_size
        self.vocabulary: int = vocabulary or self._known
        self.context: int | None = getattr(text, "max_position_embeddings", None)
        self._windows = list_attention_windows(text)
        self._pass = self._open_pass()
        self._threads = PassThreads.for_model(model)
        self._cache = self._create_cache()
        self._rows: list[_Row] = []
        self._width = 0  # columns in the cache

    def _open_pass(self) -> Any:
        return open_pass(self.model)

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as in models.base.LanguageModel.

        At a large vocabulary rows with the same text and tree are read once, and so is the distribution after a text of several rows.
        """
        if not self.plain or self._known <= LARGE_VOCABULARY or len(rows) == 1 or not getattr(self._pass, "picks", False):
            return self.warp_logits(self.compute_processed_logits(rows, tree))
        width, (first, number) = tree.widest + 1, find_equal_rows(rows, tree)
        distinct, thinned = select_rows(rows, tree, first)
        picked, places = _find_distinct_texts(distinct, thinned)
        found = self.warp_logits(self._read(distinct, thinned, torch.tensor(picked))[0])
        for line, held in enumerate(self._rows):
            held.draws = tuple(row.draw for row, its_line in zip(rows, number, strict=True) if its_line == line)
        if len(first) == 1:
            return found.index_select(0, torch.tensor(places))[None].expand(len(rows), -1, -1)
        lines = torch.tensor(places).view(len(first), width)[number]
        return found.index_select(0, lines.flatten()).view(len(rows), width, -1)

    def compute_processed_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) in the model's dtype: the logits as the processors leave them."""
        logits = self.compute_logits(rows, tree)
        if not self.processors:
            return logits
        return process_logits(logits, self.processors, [list_node_texts(row.ids, tree, i) for i, row in enumerate(rows)])

    def warp_logits(self, logits: Tensor) -> Tensor:
        """Logits (..., v) of the model's own vocabulary -> distributions (..., V) float64."""
        return pad_vocabulary(warp(logits, self.settings), self.vocabulary)

    def open_fixed(self, rows: int, columns: int) -> FixedModel:
        """The same model and settings with a cache of fixed size, for ``rows`` rows of at most ``columns`` tokens. For ``plain`` models."""
        return FixedModel(self.model, self.settings, self.vocabulary, rows, columns)

    def compute_features(self, rows: Sequence[Prefix]) -> Tensor:
        """(B, width): the last hidden state, after the final norm, from which each row's last token was predicted.

        Every row holds at least two tokens. After a round the states are left over from its target pass; otherwise a pass is run.
        """
        return self.compute_features_along(rows, [1] * len(rows))[:, 0]

    def compute_features_along(self, rows: Sequence[Prefix], last: Sequence[int]) -> Tensor:
        """(B, T, width): the states from which each of a row's last tokens was predicted, right-aligned, T = max(last).

        ``last``: for each row how many, fewer than it has tokens; what stands before them is unspecified.
        """
        before = [replace(row, ids=row.ids[:-1]) for row in rows]
        known, self._pass.keeps_features = self._pass.keeps_features, True
        places = self._gather_features(before, last) if known and self._rows else None
        if places is None:
            self._forget(min(len(row.ids) - count for row, count in zip(before, last, strict=True)), len(rows))
            self.compute_logits(before, build_empty_tree(len(rows)))
            places = self._gather_features(before, last)
        assert places is not None, "the pass has just read these tokens"
        index, columns = (torch.tensor(part, device=self.device) for part in places)
        return self._pass.features[index[:, None], columns]

    def _gather_features(self, before: Sequence[Prefix], last: Sequence[int]) -> tuple[list[int], list[list[int]]] | None:
        """Lines and columns of these states in the last pass; None: not all of them are there."""
        held, longest = self._number_draws(), max(last)
        lines = [held.get(row.draw, 0) for row in before]  # any row will do that holds the same text
        ends = self._pass.features.shape[1] - max(len(row.node_tokens) for row in self._rows)  # columns before the nodes
        found = []
        for line, row, count in zip(lines, before, last, strict=True):
            after = [self._rows[line].place(row.ids[: len(row.ids) - back]) for back in reversed(range(count))]
            if None in after:
                return None
            found.append([0] * (longest - count) + [ends - 1 + place for place in after])
        return lines, found

    def _forget(self, first: int, rows: int) -> None:
        """Forget every row's tokens from this one on, so that the next pass reads them; that pass is to be of so many rows."""
        self._rows = self._rows or [_Row() for _ in range(rows)]
        for row in self._rows:
            del row.tokens[first:], row.columns[first:]
            row.node_tokens, row.node_parents, row.node_columns = (), (), []

    @torch.inference_mode()
    def compute_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) in the model's dtype: after each prefix, and after each node of its tree."""
        return self._read(rows, tree)

    @torch.inference_mode()
    def _read(self, rows: Sequence[Prefix], tree: DraftTree, picked: Tensor | None = None) -> Tensor:
        """As ``compute_logits``; picked: the places (U,) in (B, N + 1) whose logits are computed, (1, U, V)."""
        if not self._rows:
            self._read_once(rows)
        self._match_rows(rows)
        self._rollback()
        fed = [row.ids[len(held.tokens) :] for row, held in zip(rows, self._rows, strict=True)]
        lead, nodes = max(map(len, fed)), tree.widest
        ids, positions = [], []
        for index, (row, held, fresh) in enumerate(zip(rows, self._rows, fed, strict=True)):
            before, tokens = [0] * (lead - len(fresh)), tree.tokens[index]
            after = [0] * (nodes - len(tokens))
            depths = [len(row.ids) + level for level in compute_node_depths(tree.parents[index])]
            ids.append([*before, *fresh, *tokens, *after])
            positions.append([*before, *range(len(held.tokens), len(row.ids)), *depths, *after])
        ids, positions = torch.tensor(ids), torch.tensor(positions)
        mask = self._build_mask(fed, lead, tree, positions)
        entering = self._embed_inputs(ids, rows, fed, tree)
        only = () if picked is None else (picked,)
        forward = partial(self._pass, entering, positions.to(self.device), mask, self._cache, self._width, nodes + 1, *only)
        with avoid_shape_plans(self.device):
            logits = self._threads.run(ids.numel(), forward, partial(self._probe, entering))
        self._save_state(rows, fed, lead, tree)
        return logits

    def _probe(self, entering: Tensor) -> None:
        """Make a pass over the first of these tokens with an empty cache, so that it can be timed."""
        part = entering[: max(1, PROBE_TOKENS // entering.shape[1]), :PROBE_TOKENS]
        positions = torch.arange(part.shape[1], device=self.device).expand(len(part), -1)
        self._pass(part, positions, None, self._create_cache(), 0, 1)

    def _embed_inputs(self, ids: Tensor, rows: Sequence[Prefix], fed: list[tuple[int, ...]], tree: DraftTree) -> Tensor:
        """Input of the pass for each column: its id (B, T). An id of the other model only has probability 0."""
        return (ids.clamp_(max=self._known - 1) if self._known < self.vocabulary else ids).to(self.device)

    def _read_once(self, rows: Sequence[Prefix]) -> None:
        """Read the common beginning of all rows (usually the prompt) in one row; the others copy it."""
        shared = min(_count_shared(list(rows[0].ids), row.ids) for row in rows)
        shared = min(shared, *(len(row.ids) - 1 for row in rows))
        if len(rows) > 1 and shared > 1:
            self.compute_logits([replace(rows[0], ids=rows[0].ids[:shared])], build_empty_tree(1))

    def _match_rows(self, rows: Sequence[Prefix]) -> None:
        """Match one held row to each given row: the one with the same draw number, else any, since it shares the prompt."""
        held, wanted = [row.draws for row in self._rows], [row.draw for row in rows]
        if not held:
            self._rows = [_Row() for _ in rows]
        elif held != [(draw,) for draw in wanted]:
            known = self._number_draws() if len(set(wanted)) == len(wanted) else {}
            order = [known.get(draw, index if index < len(held) else 0) for index, draw in enumerate(wanted)]
            if order != list(range(len(held))):
                self._select(order)
        for own, row in zip(self._rows, rows, strict=True):
            own.draws = (row.draw,)
            own.keep(row.ids)

    def _number_draws(self) -> dict[int, int]:
        """The held row of each draw number."""
        return {draw: index for index, row in enumerate(self._rows) for draw in row.draws}

    def _select(self, order: list[int]) -> None:
        self._rows = [self._rows[index].copy() for index in order]
        picked = torch.tensor(order, device=self.device)
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys.index_select(0, picked), layer.values.index_select(0, picked)

    def _create_cache(self) -> DynamicCache:
        """A cache made without a configuration stores every column, so that any layer can be rolled back."""
        return DynamicCache()

    def _reset(self) -> None:
        self._cache, self._width = self._create_cache(), 0

    def _rollback(self) -> None:
        """Drop columns that no row needs: the common tail by cropping, scattered holes by compaction once there are many."""
        if not self._width:
            return
        needed = max(row.columns[-1] + 1 if row.columns else 0 for row in self._rows)
        longest = max(len(row.columns) for row in self._rows)
        if needed == 0:
            self._reset()
        elif needed > longest * 1.5 + 16 or (len(self._rows) == 1 and needed != longest):
            self._compact_columns(longest)
        elif needed < self._width:
            self._cache.crop(needed - self._width)
            self._width = needed

    def _compact_columns(self, longest: int) -> None:
        """Move each row's columns together, right-aligned, with padding on the left."""
        order = torch.zeros(len(self._rows), longest, dtype=torch.int64)
        for index, row in enumerate(self._rows):
            pad = longest - len(row.columns)
            order[index, pad:] = torch.tensor(row.columns)
            row.columns = list(range(pad, longest))
        order = order.to(self.device)
        for layer in self._cache.layers:
            pick = order[:, None, :, None].expand(-1, layer.keys.shape[1], -1, layer.keys.shape[3])
            layer.keys, layer.values = layer.keys.gather(2, pick), layer.values.gather(2, pick)
        self._width = longest

    def _build_mask(self, fed: list[tuple[int, ...]], lead: int, tree: DraftTree, positions: Tensor) -> Tensor | dict | None:
        """None where a causal mask over all columns is right; else an additive mask from positions, in the model's dtype."""
        plain = all(row.columns == list(range(self._width)) for row in self._rows)
        even = all(len(f) == lead for f in fed) and all(len(tokens) == tree.widest for tokens in tree.tokens)
        if plain and even and tree.is_chain:
            return None
        if plain and len(fed) == 1 and not self.has_position_bias and not any(self._windows.values()):
            return F.pad(build_tree_mask(lead, tree.parents[0], self.model.dtype, self.device), (self._width, 0))[None, None]
        begins, total = self._width + lead, self._width + lead + tree.widest
        where = [[-1] * total for _ in fed]  # position of the token in each column; -1: not a column of this row
        for line, row, fresh in zip(where, self._rows, fed, strict=True):
            for position, column in enumerate((*row.columns, *range(begins - len(fresh), begins))):
                line[column] = position
        where = torch.tensor(where)
        seen = (where[:, None] >= 0) & (where[:, None] <= positions[:, :, None])
        seen[:, lead:, begins:] = torch.stack([build_ancestor_mask(parents, tree.widest) for parents in tree.parents])
        where[:, begins:] = positions[:, lead:]
        return self._build_additive_mask(seen, where, positions)

    def _build_additive_mask(self, visible: Tensor, where: Tensor, positions: Tensor) -> Tensor | dict[str, Tensor]:
        return build_additive_masks(visible, where, positions, self._windows, self.model.dtype, self.device)

    def _save_state(self, rows: Sequence[Prefix], fed: list[tuple[int, ...]], lead: int, tree: DraftTree) -> None:
        for index, (held, fresh) in enumerate(zip(self._rows, fed, strict=True)):
            held.tokens.extend(fresh)
            held.columns.extend(range(self._width + lead - len(fresh), self._width + lead))
            held.fresh = len(fresh)
            held.node_tokens, held.node_parents = tree.tokens[index], tree.parents[index]
            held.node_columns = [self._width + lead + node for node in range(len(tree.tokens[index]))]
        self._width += lead + tree.widest


def find_equal_rows(rows: Sequence[Prefix], tree: DraftTree) -> tuple[list[int], list[int]]:
    """Where each text with its draft tokens stands first, (U,), and for each row the number of its text, (B,)."""
    numbers: dict[object, int] = {}
    first: list[int] = []
    number: list[int] = []
    for index, asked in enumerate(zip((row.ids for row in rows), tree.tokens, tree.parents, strict=True)):
        if asked not in numbers:
            numbers[asked] = len(first)
            first.append(index)
        number.append(numbers[asked])
    return first, number


def select_rows(rows: Sequence[Prefix], tree: DraftTree, chosen: Sequence[int]) -> tuple[list[Prefix], DraftTree]:
    """These rows, and their tree."""
    kept = build_token_tree([tree.tokens[index] for index in chosen], [tree.parents[index] for index in chosen], tree.source)
    return [rows[index] for index in chosen], kept


def _find_distinct_texts(rows: Sequence[Prefix], tree: DraftTree) -> tuple[list[int], list[int]]:
    """Where each text before a distribution stands first, (U,), and for each place in (B, N + 1) the number of its text.

    Places are numbered row by row. A place behind the last node of a row gets the text of the prefix.
    """
    width = tree.widest + 1
    numbers: dict[tuple[int, ...], int] = {}
    picked: list[int] = []
    places: list[int] = []
    for index, row in enumerate(rows):
        texts = list_node_texts(row.ids, tree, index)
        for column, text in enumerate(texts):
            if text not in numbers:
                numbers[text] = len(picked)
                picked.append(index * width + column)
        places += [numbers[text] for text in texts] + [numbers[texts[0]]] * (width - len(texts))
    return picked, places


def _count_shared(cached_ids: list[int], ids: tuple[int, ...]) -> int:
    """Length of the common beginning."""
    if tuple(cached_ids) == ids[: len(cached_ids)]:
        return len(cached_ids)
    shorter = min(len(cached_ids), len(ids))  # the answer where one is a prefix of the other
    return next((i for i, (a, b) in enumerate(zip(cached_ids, ids, strict=False)) if a != b), shorter)
