"""A language model written by hand: p(x | prefix) as a function. It is small enough to enumerate, so claims can be proved on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.warp import warp


@dataclass(frozen=True, slots=True)
class TableModel:
    """Distributions from a table.

    table       prefix ids -> V probabilities, or anything float() takes, such as Fractions
    vocabulary  V
    settings    if given, the table's logarithms are warped like a network's logits
    """

    table: Callable[[tuple[int, ...]], Sequence[float]]
    vocabulary: int
    settings: Settings | None = None
    context: int | None = None

    def distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        result = torch.zeros(len(rows), tree.widest + 1, self.vocabulary, dtype=torch.float64)
        for index, row in enumerate(rows):
            result[index, 0] = self._probs(row.ids)
            for node in range(len(tree.tokens[index])):
                result[index, node + 1] = self._probs(row.ids + _path(tree, index, node))
        return result

    def _probs(self, ids: tuple[int, ...]) -> Tensor:
        probs = torch.tensor([float(x) for x in self.table(ids)], dtype=torch.float64)
        return probs if self.settings is None else warp(probs.log(), self.settings)


def _path(tree: DraftTree, index: int, node: int) -> tuple[int, ...]:
    """Tokens from the prefix down to a node, itself included."""
    path: list[int] = []
    while node != ROOT:
        path.append(tree.tokens[index][node])
        node = tree.parents[index][node]
    return tuple(reversed(path))
