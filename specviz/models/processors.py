"""Logits processors: pure functions of a text and the logits after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# ids (1, T), logits (1, V) -> logits (1, V): what transformers calls a LogitsProcessor
Processor = Callable[[Tensor, Tensor], Tensor]
Texts = Sequence[Sequence[tuple[int, ...]]]  # of each row, the text before each of its distributions


@torch.inference_mode()
def process_logits(logits: Tensor, processors: Sequence[Processor], texts: Texts) -> Tensor:
    """(B, N + 1, V): a copy of the logits, each after the processors in their order, which read its own text."""
    logits = logits.clone()
    known = logits.shape[-1]  # the target cannot have written ids that only the draft has
    for index, row in enumerate(texts):
        for place, ids in enumerate(row):
            text = torch.tensor([[token for token in ids if token < known]], device=logits.device)
            for processor in processors:
                logits[index, place] = processor(text, logits[index, place][None])[0]
    return logits
