"""Retrieval: what follows the latest tokens in a given text, found with a suffix index (He et al. 2024, REST)."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from specviz.errors import SettingsError
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers import source_texts
from specviz.proposers.base import Proposer
from specviz.proposers.copied import build_copying
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.verification.registry import DraftForm

LONGEST, SHORTEST = 16, 2  # length in tokens of the ending that is looked up
TOKENS_MIN = 16  # tokens that a text must have

_indices: WeakKeyDictionary = WeakKeyDictionary()  # tokenizer -> {name: SuffixIndex}; never changed once built


class SuffixIndex:
    """All suffixes of a text of tokens in sorted order, so that all occurrences of a phrase are one interval.

    Built by doubling (Manber and Myers 1990): half a second for 100,000 tokens. Raises SettingsError below TOKENS_MIN tokens.
    """

    def __init__(self, tokens: Sequence[int], name: str = "text"):
        if len(tokens) < TOKENS_MIN:
            raise SettingsError("source-text", name, f"a text of at least {TOKENS_MIN} tokens (it has {len(tokens)})")
        self.tokens = np.asarray(tokens, dtype=np.int64)
        self.order = _sort_suffixes(self.tokens)

    def follow(self, ids: Sequence[int], count: int) -> list[int]:
        """At most ``count`` tokens after the longest ending of ``ids`` found in the text, each the most frequent next token.

        Endings of SHORTEST to LONGEST tokens are tried. Among equally frequent tokens the smallest id wins.
        """
        for length in range(min(LONGEST, len(ids)), SHORTEST - 1, -1):
            places = self.find_places(ids[-length:])
            if len(places):
                return self._follow_most_frequent(places + length, count)
        return []

    def find_places(self, phrase: Sequence[int]) -> np.ndarray:
        """Where a phrase begins, in no particular order, (n,) int64."""
        low, high = 0, len(self.order)
        for offset, token in enumerate(phrase):
            low, high = self._narrow(low, high, offset, token)
            if low == high:
                break
        return self.order[low:high]

    def _narrow(self, low: int, high: int, offset: int, token: int) -> tuple[int, int]:
        """Narrow the suffixes low to high, which agree so far, to those with ``token`` at ``offset``."""
        ends = []
        for side in (token, token + 1):
            a, b = low, high
            while a < b:
                middle = (a + b) // 2
                at = self.order[middle] + offset
                if at < len(self.tokens) and self.tokens[at] >= side:
                    b = middle
                else:  # a suffix that has ended sorts before those that continue
                    a = middle + 1
            ends.append(a)
        return ends[0], ends[1]

    def _follow_most_frequent(self, at: np.ndarray, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count and len(at := at[at < len(self.tokens)]):
            tokens, times = np.unique(self.tokens[at], return_counts=True)
            found.append(int(tokens[times.argmax()]))
            at = at[self.tokens[at] == found[-1]] + 1
        return found


def _sort_suffixes(tokens: np.ndarray) -> np.ndarray:
    """Starts of all suffixes, in sorted order; a suffix sorts before those that begin with it."""
    _, rank = np.unique(tokens, return_inverse=True)
    rank, span = rank.reshape(-1), 1
    while True:
        behind = np.full(len(rank), -1, dtype=np.int64)
        behind[:-span] = rank[span:]
        key = rank * (len(rank) + 1) + behind + 1
        found, rank = np.unique(key, return_inverse=True)
        rank = rank.reshape(-1)
        if len(found) == len(rank):
            return np.argsort(rank, kind="stable")
        span *= 2


def load_index(pair: LoadedPair, name: str) -> SuffixIndex:
    """The suffix index of a named text in a pair's tokens, built once per tokenizer; "" is the first bundled text.

    Raises SettingsError for an unknown name, and for a text too short for lookups.
    """
    name = name or next(iter(source_texts.TEXTS))
    if name not in source_texts.TEXTS:
        raise SettingsError("source-text", name[:60], f"one of {', '.join(source_texts.TEXTS)}")
    known = _indices.setdefault(pair.tokenizer, {})
    if name not in known:
        known[name] = SuffixIndex(pair.tokenizer.encode(source_texts.read_source_text(name, source_texts.TEXTS[name])), name)
    return known[name]


@register_proposer(
    "retrieval", title="retrieval from a text", form=DraftForm(copies=True), reads=("gamma", "source_text"), runs_model=False
)
def _build_retrieval(request: DraftingRequest) -> Proposer:
    return build_copying(request, "retrieval", load_index(request.pair, request.settings.source_text).follow)
