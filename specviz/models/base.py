"""What the decoder asks of a model: the distributions after each prefix and after each draft token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from specviz.randomness import Prefix
from specviz.verification.draft_tree import DraftTree


class LanguageModel(Protocol):
    """A model with its sampling settings, opened for one request. Its results are a pure function of rows and tree."""

    @property
    def vocabulary(self) -> int:
        """Number of ids, V."""
        ...

    @property
    def context(self) -> int | None:
        """Most tokens a row may hold; None: no limit."""
        ...

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) float64: after each row's prefix, then after each node of its tree (N = tree.widest).

        A row with fewer than N nodes has unspecified entries at its end. A draft may give zeros instead of a distribution:
        nothing can be drafted there.
        """
        ...
