"""Samples: many continuations of one prompt, from any decoder. Evidence is computed from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

NONE = -1  # in place of a token after the end of a sample


@dataclass(frozen=True, slots=True)
class Samples:
    """N samples of at most L tokens, with the settings under which they were drawn.

    tokens    (N, L) int32; after the end of a sample every entry is NONE
    settings  settings.Settings.to_record() of the run, or what a file says about its server
    source    the decoder: "speculative", "target", "assisted", a mutant's name, or a file
    first     number of the first sample; sample i of a seed is always the same
    """

    tokens: np.ndarray
    settings: dict[str, Any]
    source: str
    first: int = 0

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lengths(self) -> np.ndarray:
        """Length of each sample in tokens, (N,) int64; an end-of-sequence token counts."""
        return (self.tokens != NONE).sum(1)

    def counts(self, length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The distinct samples, cut to ``length`` tokens and sorted by ids, (M, length) int32, and how often each occurs."""
        texts, group = distinct(self.tokens[:, :length] if length else self.tokens)
        return texts, np.bincount(group, minlength=len(texts))

    def part(self, begin: int, end: int) -> Samples:
        """Samples ``begin`` to ``end - 1`` of these, counted from 0."""
        return replace(self, tokens=self.tokens[begin:end], first=self.first + begin)


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of (N, L) ids, in lexicographic order, and the index of each row among them, (N,) int64."""
    if not len(rows):
        return rows, np.zeros(0, dtype=np.int64)
    first, group = np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for column in rows.T.astype(np.int64) - NONE:  # one sort of numbers a token: sorting rows takes ten times as long
        _, first, group = np.unique(group * (int(column.max()) + 1) + column, return_index=True, return_inverse=True)
    return rows[first], group.reshape(-1)


def joined(shards: Iterable[Samples]) -> Samples:
    """Join neighboring shards of one run, given in any order. Raises ValueError for a gap, an overlap or different settings."""
    ordered = sorted(shards, key=lambda shard: shard.first)
    for before, after in pairwise(ordered):
        if after.first != before.first + len(before):
            raise ValueError(f"samples {before.first + len(before)} to {after.first - 1} are missing or present twice")
        if (before.settings, before.source) != (after.settings, after.source):
            raise ValueError("shards of different runs")
    head = ordered[0]
    return Samples(np.concatenate([shard.tokens for shard in ordered]), head.settings, head.source, head.first)
