"""A draft head that reads the target's hidden states, opened for one request (EAGLE, Li et al. 2024).

Its column for a token of the text is computed from the target's state before that token, its column for a draft token from the
state that it predicted there. So a draft token's column is dropped after the round, even if it was accepted, and computed anew.
Distributions are a pure function of the prefix and of the draft tokens on the path; prefix and path are not interchangeable.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specviz.models.attachments.eagle import DraftHead
from specviz.models.cache.decoder import CachedModel, find_equal_rows, select_rows
from specviz.models.fast_llama.passes import LlamaPass
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree, build_token_tree, list_node_texts

Path = tuple[int, ...]  # draft tokens from the prefix down to a node; () for the prefix itself


class FeatureDraft(CachedModel):
    """A draft head as a language model. Every row holds at least two tokens, and all rows begin with the same one.

    Args:
        head: The head; read-only.
        target: The model whose states it reads; if a round has just scored its tree, no further pass is made.
    """

    plain = False

    def __init__(self, head: DraftHead, target: CachedModel, settings: Settings):
        super().__init__(head.network, settings, target.vocabulary)
        self.head, self.target, self._pass = head, target, HeadPass(head.network)
        self._first: int | None = None  # the token that every row begins with; no column is its own
        self._asked: Sequence[Prefix] = ()
        self._predicted: dict[tuple[int, ...], dict[Path, Tensor]] = {}  # prefix -> the state predicted after each path below it

    @torch.inference_mode()
    def compute_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """As CachedModel's. Rows with the same text and the same draft tokens are read once."""
        first, number = find_equal_rows(rows, tree)
        found = self._read_distinct(*select_rows(rows, tree, first))
        return found if len(first) == len(rows) else found[number]

    def _read_distinct(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        upper = _keep_inner_nodes(tree)
        if any(
            path not in self._predicted.get(row.ids, ())
            for index, row in enumerate(rows)
            if tree.tokens[index]
            for path in _list_paths(upper, index)
        ):
            self._read_distinct(rows, upper)
        if rows[0].ids[0] != self._first:
            self._first, self._rows = rows[0].ids[0], []
            self._reset()
        self._asked = rows
        logits = super().compute_logits([replace(row, ids=row.ids[1:]) for row in rows], tree)
        self._predicted = {}
        for index, row in enumerate(rows):
            states = self._pass.features[index, -1 - tree.widest :]
            self._predicted.setdefault(row.ids, {}).update(zip(_list_paths(tree, index), states, strict=False))
        return logits

    def _read_once(self, rows: Sequence[Prefix]) -> None:
        """Nothing: each row reads its own prompt, with the target's states beside it."""

    def _embed_inputs(self, ids: Tensor, rows: Sequence[Prefix], fed: list[tuple[int, ...]], tree: DraftTree) -> Tensor:
        """(B, T, width): each token's embedding and the state before it, through the projection."""
        known, lead = self._list_known_states([len(fresh) for fresh in fed]), max(map(len, fed))
        states = known.new_zeros(*ids.shape, known.shape[2])
        states[:, :lead] = known[:, known.shape[1] - lead :]
        for index, row in enumerate(self._asked):
            paths = _list_paths(tree, index)
            for node, parent in enumerate(tree.parents[index]):
                states[index, lead + node] = self._predicted[row.ids][paths[parent + 1]]
        return self.head.embed_inputs(super()._embed_inputs(ids, rows, fed, tree), states)

    def _list_known_states(self, last: Sequence[int]) -> Tensor:
        """(B, T, width): the target's states before the last tokens of each row, right-aligned; each text is read once."""
        most: dict[tuple[int, ...], int] = {}
        for row, count in zip(self._asked, last, strict=True):
            most[row.ids] = max(count, most.get(row.ids, 0))
        first = _find_first_places([row.ids for row in self._asked])
        found = self.target.compute_features_along([self._asked[first[ids]] for ids in most], [*most.values()])
        number = {ids: index for index, ids in enumerate(most)}
        return found[[number[row.ids] for row in self._asked]]

    def _save_state(self, rows: Sequence[Prefix], fed: list[tuple[int, ...]], lead: int, tree: DraftTree) -> None:
        """Only the text's own columns can be used again."""
        super()._save_state(rows, fed, lead, build_empty_tree(len(rows)))
        self._width += tree.widest


class HeadPass(LlamaPass):
    """States that enter the layer to logits. ``features`` are the predicted states."""

    def _enter(self, ids: Tensor) -> Tensor:
        """Nothing is embedded: the states are given in place of ids."""
        return ids

    def _normalize(self, hidden: Tensor) -> Tensor:
        return hidden


def _list_paths(tree: DraftTree, index: int) -> list[Path]:
    """The path to the prefix, which is empty, and to each node of a row."""
    return list_node_texts((), tree, index)


def _find_first_places(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    """Where each key stands first, in that order."""
    found: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, place)
    return found


def _keep_inner_nodes(tree: DraftTree) -> DraftTree:
    """The nodes that have children. A tree with one node less on every path, and so without nodes in the end."""
    tokens, parents = [], []
    for row, above in zip(tree.tokens, tree.parents, strict=True):
        place = {ROOT: ROOT} | {node: number for number, node in enumerate(sorted({*above} - {ROOT}))}
        tokens.append(tuple(row[node] for node in place if node != ROOT))
        parents.append(tuple(place[above[node]] for node in place if node != ROOT))
    return build_token_tree(tokens, parents, tree.source)
