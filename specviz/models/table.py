"""A language model written by hand: p(x | prefix) as a function. It is small enough to enumerate, so claims can be proved on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, list_node_texts
from specviz.verification.warp import warp


@dataclass(frozen=True)
class TableModel:
    """Distributions from a table. Each is computed once."""

    # prefix ids -> V probabilities, or anything float() takes, such as Fractions; a pure function
    table: Callable[[tuple[int, ...]], Sequence[float]]
    vocabulary: int  # V
    settings: Settings | None = None  # if given, the table's logarithms are warped like a network's logits
    context: int | None = None
    _known: dict[tuple[int, ...], Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        nothing = torch.zeros(self.vocabulary, dtype=torch.float64)
        result, width = [], tree.widest + 1
        for index, row in enumerate(rows):
            paths = list_node_texts(row.ids, tree, index)
            result += [self.compute_probs(ids) for ids in paths] + [nothing] * (width - len(paths))
        return torch.stack(result).view(len(rows), width, -1)

    def compute_probs(self, ids: tuple[int, ...]) -> Tensor:
        """(V,) float64, the distribution of the token after ``ids``."""
        if ids not in self._known:
            probs = torch.tensor([float(x) for x in self.table(ids)], dtype=torch.float64)
            self._known[ids] = probs if self.settings is None else warp(probs.log(), self.settings)
        return self._known[ids]
