"""The one thing asked of a model: the distributions after each prefix and after each proposed token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from specviz.randomness import Prefix
from specviz.verification.draft_tree import DraftTree


class LanguageModel(Protocol):
    """A model with its warper, opened for one request. What it returns is a pure function of rows and block.

    vocabulary  V
    context     most tokens a row may hold, None where there is no limit
    """

    vocabulary: int
    context: int | None

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        """(B, N + 1, V) float64: after each row's prefix, and after each node of its block (N = block.widest).

        Where a row has fewer nodes than N, its last entries are unspecified.
        """
        ...
