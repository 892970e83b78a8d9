"""Drafts for teaching: the uniform distribution, word frequencies, and a draft model reversed.

Each is a language model, so ``DraftModel`` draws chains from it and the sampler shares its distributions. However bad they are,
the text has the target's distribution: a bad draft costs only speed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.warp import warp


class FixedDistribution:
    """The same distribution after every prefix, warped like any other.

    logits  (V,) float64; -inf for impossible tokens
    """

    context = None

    def __init__(self, logits: Tensor, settings: Settings):
        self.probs = warp(logits, settings)
        self.vocabulary = len(logits)

    def distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        return self.probs.expand(len(rows), tree.widest + 1, -1)


def uniform(known: int, vocabulary: int, settings: Settings, device: torch.device | str = "cpu") -> FixedDistribution:
    """The uniform distribution over the first ``known`` ids; at temperature 0 the smallest id."""
    logits = torch.full((vocabulary,), -torch.inf, dtype=torch.float64, device=device)
    logits[:known] = 0.0
    return FixedDistribution(logits, settings)


def unigram(tokens: np.ndarray, vocabulary: int, settings: Settings, device: torch.device | str = "cpu") -> FixedDistribution:
    """The frequency of each token in a text of ids, whatever the prefix (the weakest draft in Leviathan et al. 2023)."""
    counts = torch.from_numpy(np.bincount(tokens, minlength=vocabulary)).double()
    return FixedDistribution(counts.log().to(device), settings)


class Reversed:
    """Distributions from negated logits: the least likely token becomes the most likely. Impossible tokens stay impossible.

    source    gives distributions at temperature 1 without cuts
    settings  temperature and cuts, applied after the reversal
    """

    def __init__(self, source: LanguageModel, settings: Settings):
        self.source, self.settings = source, settings
        self.vocabulary, self.context = source.vocabulary, source.context

    def distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        probs = self.source.distributions(rows, tree)
        probs = torch.where(probs.sum(-1, keepdim=True) > 0, probs, 1.0)  # the padding of shorter rows is all zero
        return warp(torch.where(probs > 0, -probs.log(), -torch.inf), self.settings)
