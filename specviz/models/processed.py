"""A target with a logits processor: a truncation, a banned word, a repetition penalty.

The processed distribution is still a pure function of the prefix, so speculative decoding keeps it exactly, provided that the
processor receives the right prefix for each position of a pass: the text so far, plus the path of draft tokens to each node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specviz.models.cache.decoder import CachedModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, list_node_texts

# ids (1, T), logits (1, V) -> logits (1, V): what transformers calls a LogitsProcessor
Processor = Callable[[Tensor, Tensor], Tensor]


class ProcessedModel:
    """Another model's logits, each passed through a processor together with its own prefix. The processor is a pure function."""

    def __init__(self, source: CachedModel, processor: Processor):
        self.source, self.processor = source, processor
        self.vocabulary: int = source.vocabulary
        self.context: int | None = source.context
        self.settings: Settings = source.settings

    def distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as in models.base.LanguageModel."""
        return self.warp_logits(self.logits(rows, tree))

    def warp_logits(self, logits: Tensor) -> Tensor:
        return self.source.warp_logits(logits)

    @torch.inference_mode()
    def logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V): after each prefix, and after each node of its tree."""
        logits = self.source.logits(rows, tree).clone()
        known = logits.shape[-1]  # the target cannot have written ids that only the draft has
        for index, row in enumerate(rows):
            for place, ids in enumerate(self.prefixes(row, tree, index)):
                text = torch.tensor([[token for token in ids if token < known]], device=logits.device)
                logits[index, place] = self.processor(text, logits[index, place][None])[0]
        return logits

    def prefixes(self, row: Prefix, tree: DraftTree, index: int) -> list[tuple[int, ...]]:
        """The prefix of each distribution that a row asks for."""
        return list_node_texts(row.ids, tree, index)
