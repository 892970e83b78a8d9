"""A target behind a logits processor: a cut, a banned word, a penalty that remembers what was written.

Whoever puts a processor behind a target changes the distribution that is served. It stays a pure function of the prefix, so speculation keeps
it exactly, if the processor is given the prefix of each distribution that a pass asks for: the text so far, and with it the path of
draft tokens down to each node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specviz.models.cache.decoder import CachedModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, texts

Processor = Callable[
    [Tensor, Tensor], Tensor
]  # ids (1, T), logits (1, V) -> logits (1, V): what transformers calls a LogitsProcessor


class Processed:
    """Another source's logits, each put through a processor together with its own prefix.

    source     opened for one request; processor  of transformers, or anything called like one: a function of its arguments alone
    """

    def __init__(self, source: CachedModel, processor: Processor):
        self.source, self.processor = source, processor
        self.vocabulary: int = source.vocabulary
        self.context: int | None = source.context
        self.settings: Settings = source.settings

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as models.base.LawSource says."""
        return self.warped(self.logits(rows, block))

    def warped(self, logits: Tensor) -> Tensor:
        return self.source.warped(logits)

    @torch.inference_mode()
    def logits(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        """(B, N + 1, V): after each prefix, and after each node of its block."""
        logits = self.source.logits(rows, block).clone()
        known = logits.shape[-1]  # ids that only the draft knows are no text of the target's
        for index, row in enumerate(rows):
            for place, ids in enumerate(self.prefixes(row, block, index)):
                text = torch.tensor([[token for token in ids if token < known]], device=logits.device)
                logits[index, place] = self.processor(text, logits[index, place][None])[0]
        return logits

    def prefixes(self, row: Prefix, block: DraftTree, index: int) -> list[tuple[int, ...]]:
        """What stands before each distribution that a row asks for."""
        return texts(row.ids, block, index)
