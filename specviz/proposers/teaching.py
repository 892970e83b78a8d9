"""Drafts that are there to be understood: no idea at all, word frequencies, the draft turned against itself.

Each is a source of distributions, so the draft proposer draws chains from it and the sampler shares its distributions. However bad they are,
the text has the target's distribution: only speed is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.warp import warp


class Same:
    """One distribution after every prefix, warped like any other.

    logits  (V,) float64; -inf for what is impossible
    """

    context = None

    def __init__(self, logits: Tensor, settings: Settings):
        self.probs = warp(logits, settings)
        self.vocabulary = len(logits)

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        return self.probs.expand(len(rows), block.widest + 1, -1)


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
    """Distributions from minus the logits: what the source finds least likely comes first. Impossible tokens stay impossible.

    source  its distributions at temperature 1 without cuts; temperature and cuts of ``settings`` act on what is made of them
    """

    source: LanguageModel
    settings: Settings

    @property
    def vocabulary(self) -> int:
        return self.source.vocabulary

    @property
    def context(self) -> int | None:
        return self.source.context

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        probs = self.source.distributions(rows, block)
        probs = torch.where(probs.sum(-1, keepdim=True) > 0, probs, 1.0)  # entries behind a shorter row's block hold nothing
        return warp(torch.where(probs > 0, -probs.log(), -torch.inf), self.settings)
