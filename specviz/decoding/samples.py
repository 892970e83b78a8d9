"""Many continuations of one prompt: what evidence is about, whoever drew them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

NONE = -1  # stands where a continuation has ended


@dataclass(frozen=True, slots=True)
class Samples:
    """N continuations of at most L tokens, with what they were drawn under.

    tokens    (N, L) int32; after a continuation's end every entry is NONE
    settings  settings.Settings.to_record() of the run, or what a file says of its server
    source    who drew: "speculative", "target", "assisted", a mutant's name, a file
    first     number of the first draw; draw i of a seed is the same whoever asks for it
    """

    tokens: np.ndarray
    settings: dict[str, Any]
    source: str
    first: int = 0

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each continuation, (N,) int64; the ending token counts."""
        return (self.tokens != NONE).sum(1)

    def counts(self, length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Different continuations, cut to ``length`` tokens, in order of their ids: (M, length) int32, and how often each."""
        cut = self.tokens[:, :length] if length else self.tokens
        return np.unique(cut, axis=0, return_counts=True)


def joined(shards: Iterable[Samples]) -> Samples:
    """Neighbouring shards of one run as one. Order does not matter; a gap, an overlap or other settings do: ValueError."""
    ordered = sorted(shards, key=lambda shard: shard.first)
    for before, after in pairwise(ordered):
        if after.first != before.first + len(before):
            raise ValueError(f"draws {before.first + len(before)} to {after.first - 1} are missing or there twice")
        if (before.settings, before.source) != (after.settings, after.source):
            raise ValueError("shards of different runs")
    head = ordered[0]
    return Samples(np.concatenate([shard.tokens for shard in ordered]), head.settings, head.source, head.first)
