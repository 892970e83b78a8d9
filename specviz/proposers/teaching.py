"""Drafts for teaching: the uniform distribution, word frequencies, a draft model reversed, and the target itself.

Each is a language model, so ``DraftModel`` draws chains from it. A bad draft costs only speed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.proposers.chains import build_chain, describe_chain
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.proposers.retrieval import load_index
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.warp import warp


class FixedDistribution:
    """The same distribution after every prefix, warped like any other. logits (V,) float64; -inf for impossible tokens."""

    context: int | None = None

    def __init__(self, logits: Tensor, settings: Settings):
        self.probs = warp(logits, settings)
        self.vocabulary = len(logits)

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        return self.probs.expand(len(rows), tree.widest + 1, -1)


def build_uniform_distribution(
    num_tokens: int, vocabulary: int, settings: Settings, device: torch.device | str = "cpu"
) -> FixedDistribution:
    """The uniform distribution over the first ``known`` ids; at temperature 0 the smallest id."""
    logits = torch.full((vocabulary,), -torch.inf, dtype=torch.float64, device=device)
    logits[:num_tokens] = 0.0
    return FixedDistribution(logits, settings)


def build_word_frequencies(
    tokens: np.ndarray, vocabulary: int, settings: Settings, device: torch.device | str = "cpu"
) -> FixedDistribution:
    """The frequency of each token in a text of ids, whatever the prefix (the weakest draft in Leviathan et al. 2023)."""
    counts = torch.from_numpy(np.bincount(tokens, minlength=vocabulary)).double()
    return FixedDistribution(counts.log().to(device), settings)


class ReversedDraft:
    """Distributions from negated logits: the least likely token becomes the most likely. Impossible tokens stay impossible.

    ``source`` gives distributions at temperature 1 without cuts; temperature and cuts of the settings are applied after the
    reversal.
    """

    def __init__(self, source: LanguageModel, settings: Settings):
        self.source, self.settings = source, settings
        self.vocabulary, self.context = source.vocabulary, source.context

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        probs = self.source.compute_distributions(rows, tree)
        probs = torch.where(probs.sum(-1, keepdim=True) > 0, probs, 1.0)  # the padding of shorter rows is all zero
        return warp(torch.where(probs > 0, -probs.log(), -torch.inf), self.settings)


@register_proposer(
    "unigram",
    title="word frequencies",
    form=describe_chain,
    reads=("gamma", "draft_length_policy", "source_text"),
    runs_model=False,
)
def _build_unigram(request: DraftingRequest) -> Proposer:
    """Chains from the token frequencies of the text that retrieval would read."""
    tokens = load_index(request.pair, request.settings.source_text).tokens
    return build_chain(request, build_word_frequencies(tokens, request.target.vocabulary, request.settings, request.device))


@register_proposer("uniform", title="any token", form=describe_chain, reads=("gamma", "draft_length_policy"), runs_model=False)
def _build_uniform(request: DraftingRequest) -> Proposer:
    """Chains from the uniform distribution over the tokens of the pair's tokenizer."""
    known = len(request.pair.tokenizer)
    return build_chain(request, build_uniform_distribution(known, request.target.vocabulary, request.settings, request.device))


@register_proposer("adversarial", title="reversed draft", form=describe_chain, reads=("gamma", "draft_length_policy"))
def _build_adversarial(request: DraftingRequest) -> Proposer:
    return build_chain(request, ReversedDraft(request.open_uncut_draft(), request.settings))


@register_proposer("oracle", title="the target itself", form=describe_chain, reads=("gamma", "draft_length_policy"))
def _build_oracle(request: DraftingRequest) -> Proposer:
    return build_chain(request, request.reopen()[0])
