"""Which samples lie so near an edge that another machine may draw other tokens.

In float32, distributions differ in the seventh digit from machine to machine and with the shape of a pass. A random number that
close to its threshold, or to the edge between two tokens, may fall on the other side.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from specviz.decoding.sampler import Distributions, Shard, SharedSampler, next_tokens
from specviz.progress import ignore_progress
from specviz.randomness import Purpose
from specviz.verification.overlap import overlap

NEAR = 2e-6  # between the passes of the shipped pair, distributions differ by at most 1.6e-6


def find_borderline(shard: Shard, beginnings: Collection[tuple[int, ...]]) -> np.ndarray:
    """Which samples of a shard may fall into another cell if distributions round in another way, (count,) bool.

    ``shard``: one that ``shared_distributions`` can sample. ``beginnings``: beginnings of texts that tell cells apart, each
    together with all of its own beginnings.

    A sample is marked if one of its random numbers, moved by NEAR, would have given another of the beginnings or ended a round
    elsewhere. Samples are followed only as long as their text is one of the beginnings, so this is little work.
    """
    edges = _NearEdges(shard, beginnings)
    edges.draw("", ignore_progress, None, lambda state: None)
    return edges.near


class _NearEdges(SharedSampler):
    """The same samples, followed while their texts are among the beginnings; marks those with a random number near an edge."""

    def __init__(self, shard: Shard, beginnings: Collection[tuple[int, ...]]):
        super().__init__(shard)
        self.beginnings = set(beginnings)
        self.near = np.zeros(shard.count, dtype=bool)

    def _write(
        self,
        place: int,
        which: np.ndarray,
        distributions: Distributions,
        randomness: dict[Purpose, np.ndarray],
        drafting: np.ndarray,
    ) -> None:
        super()._write(place, which, distributions, randomness, drafting)
        if not len(which):
            return
        text = tuple(self.tokens[which[0], :place].tolist())
        named = np.array([one[place] for one in self.beginnings if len(one) == place + 1 and one[:place] == text])
        tokens, closed = self.tokens[which, place], self.start[which] == place + 1
        matters = np.isin(tokens, named)
        near = dict.fromkeys(randomness, NEAR) | {Purpose.RESIDUAL: compute_residual_window(distributions)}
        for sign in (-1.0, 1.0):
            moved = {purpose: np.clip(u + sign * near[purpose], 0.0, 1.0) for purpose, u in randomness.items()}
            others, ended = next_tokens(self.rule, distributions, moved, drafting)
            changed = (others != tokens) & (matters | np.isin(others, named))
            self.near[which[changed | (matters & (ended != closed))]] = True
        self.open[which[~matters]] = False  # whatever follows, the sample stays in the cell of its beginning


def compute_residual_window(distributions: Distributions) -> float:
    """NEAR for the random number that draws from a residual: rescaling p - q to sum to 1 also scales its rounding errors."""
    p, _, q = distributions
    return NEAR if q is None else min(1.0, NEAR / max(NEAR, 1.0 - float(overlap(p, q))))
