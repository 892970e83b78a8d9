"""Passes over given text: a model's distributions at each of its tokens, many tokens in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import MappedPair, add_draftable_share, find_draftable_share
from specviz.proposers.request import open_proposer
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree, build_token_tree

TOKENS_PER_PASS = 64  # tokens of one pass


def build_known_chain(tokens: Sequence[int]) -> DraftTree:
    """Known tokens as a chain, without draft probabilities."""
    return build_token_tree((tuple(tokens),), (tuple(range(ROOT, len(tokens) - 1)),))


def iterate_distributions(
    source: LanguageModel, prompt: Sequence[int], tokens: Sequence[int], tokens_per_pass: int = TOKENS_PER_PASS
) -> Iterator[tuple[slice, Tensor]]:
    """The distribution before each of the tokens after a prompt, ``tokens_per_pass`` of them in a pass.

    Yields:
        (slice of the tokens, (n, V) float64), in order.
    """
    for begin in range(0, len(tokens), tokens_per_pass):
        some = tokens[begin : begin + tokens_per_pass]
        row = Prefix((*prompt, *tokens[:begin]), begin, len(tokens) - begin)
        yield slice(begin, begin + len(some)), source.compute_distributions([row], build_known_chain(some[:-1]))[0]


def measure_draftable_mass(
    pair: LoadedPair, settings: Settings, texts: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> float | None:
    """Mean mass of the draft's distribution that can be proposed at the places of texts (prompt, tokens), in [0, 1].

    None unless the settings' proposer draws from a draft with another tokenizer than the target's.
    """
    if not isinstance(pair, MappedPair) or (draft := getattr(open_proposer(pair, settings)[1], "draft", None)) is None:
        return None
    for prompt, tokens in texts:
        for _ in iterate_distributions(draft, prompt, [int(token) for token in tokens]):
            pass
    return find_draftable_share(draft)


def describe_pair(pair: LoadedPair, settings: Settings, texts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> dict[str, Any]:
    """The pair's description, with ``draftable_along`` of these texts where the tokenizers differ."""
    return add_draftable_share(pair.describe(), measure_draftable_mass(pair, settings, texts))
