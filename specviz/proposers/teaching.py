"""Drafts that are there to be understood: no idea at all, word frequencies, the draft turned against itself.

Each is a source of laws, so the draft proposer draws chains from it and the sampler shares its laws. However bad they are,
the text has the target's law: only speed is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specviz.models.base import LawSource
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import Block
from specviz.verification.warp import warp


class Same:
    """One law after every prefix, warped like any other.

    logits  (V,) float64; -inf for what is impossible
    """

    context = None

    def __init__(self, logits: Tensor, settings: Settings):
        self.law = warp(logits, settings)
        self.vocabulary = len(logits)

    def laws(self, rows: Sequence[Prefix], block: Block) -> Tensor:
        return self.law.expand(len(rows), block.widest + 1, -1)


def uniform(known: int, vocabulary: int, settings: Settings, device: torch.device | str = "cpu") -> Same:
    """All of the first ``known`` ids alike; at temperature 0 the smallest id."""
    logits = torch.full((vocabulary,), -torch.inf, dtype=torch.float64, device=device)
    logits[:known] = 0.0
    return Same(logits, settings)


def unigram(tokens: np.ndarray, vocabulary: int, settings: Settings, device: torch.device | str = "cpu") -> Same:
    """Each token as often as it stands in a text of ids, whatever came before (the weakest draft in Leviathan et al. 2023)."""
    counts = torch.from_numpy(np.bincount(tokens, minlength=vocabulary)).double()
    return Same(counts.log().to(device), settings)


@dataclass(frozen=True, slots=True)
class Reversed:
    """Laws from minus the logits: what the source finds least likely comes first. Impossible tokens stay impossible.

    source  its laws at temperature 1 without cuts; temperature and cuts of ``settings`` act on what is made of them
    """

    source: LawSource
    settings: Settings

    @property
    def vocabulary(self) -> int:
        return self.source.vocabulary

    @property
    def context(self) -> int | None:
        return self.source.context

    def laws(self, rows: Sequence[Prefix], block: Block) -> Tensor:
        law = self.source.laws(rows, block)
        law = torch.where(law.sum(-1, keepdim=True) > 0, law, 1.0)  # entries behind a shorter row's block hold nothing
        return warp(torch.where(law > 0, -law.log(), -torch.inf), self.settings)
