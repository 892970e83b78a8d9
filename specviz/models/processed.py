"""A target with a logits processor: a truncation, a banned word, a repetition penalty.

The processed distribution is still a pure function of the prefix, so speculative decoding keeps it exactly, provided that the
processor receives the right prefix for each position of a pass: the text so far, plus the path of draft tokens to each node.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specviz.models.cache.decoder import CachedModel
from specviz.models.processors import Processor, process_logits
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, list_node_texts


class ProcessedModel:
    """Another model's logits, each passed through a processor together with its own prefix. The processor is a pure function."""

    def __init__(self, source: CachedModel, processor: Processor):
        self.source, self.processor = source, processor
        self.vocabulary: int = source.vocabulary
        self.context: int | None = source.context
        self.settings: Settings = source.settings

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as in models.base.LanguageModel."""
        return self.warp_logits(self.compute_processed_logits(rows, tree))

    def warp_logits(self, logits: Tensor) -> Tensor:
        return self.source.warp_logits(logits)

    def compute_processed_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V): after each prefix, and after each node of its tree."""
        texts = [self.list_prefixes(row, tree, index) for index, row in enumerate(rows)]
        return process_logits(self.source.compute_processed_logits(rows, tree), [self.processor], texts)

    def list_prefixes(self, row: Prefix, tree: DraftTree, index: int) -> list[tuple[int, ...]]:
        """The prefix of each distribution that a row asks for."""
        return list_node_texts(row.ids, tree, index)
