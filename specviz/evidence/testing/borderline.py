"""Which samples lie so near an edge that another machine may draw other tokens.

In float32, distributions differ in the seventh digit from machine to machine and with the shape of a pass. A random number that
close to its threshold, or to the edge between two tokens, may fall on the other side.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from specviz.decoding.sampler import Distributions, Shard, SharedSampler, draw_next_tokens
from specviz.progress import ignore_progress
from specviz.randomness import Purpose
from specviz.verification.overlap import compute_overlap

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
        self.named: dict[tuple[int, ...], set[int]] = {}  # tokens that continue a text to one of the beginnings
        for one in beginnings:
            if one:
                self.named.setdefault(one[:-1], set()).add(one[-1])
        self.near = np.zeros(shard.count, dtype=bool)

    def _write(
        self,
        place: int,
        which: np.ndarray,
        rows: np.ndarray,
        distributions: Distributions,
        randomness: dict[Purpose, np.ndarray],
        drafting: np.ndarray,
    ) -> None:
        super()._write(place, which, rows, distributions, randomness, drafting)
        if not len(which):
            return
        vocabulary, first = distributions[0].shape[-1], np.searchsorted(rows, np.arange(len(distributions[0])))
        texts = map(tuple, self.tokens[which[first], :place].tolist())
        named = [row * vocabulary + token for row, text in enumerate(texts) for token in self.named.get(text, ())]
        tokens, closed = self.tokens[which, place], self.start[which] == place + 1
        matters = np.isin(rows * vocabulary + tokens, named)
        near: dict[Purpose, float | np.ndarray] = dict.fromkeys(randomness, NEAR)
        near |= {Purpose.RESIDUAL: compute_residual_window(distributions)[rows]}
        for sign in (-1.0, 1.0):
            moved = {purpose: np.clip(u + sign * near[purpose], 0.0, 1.0) for purpose, u in randomness.items()}
            others, ended = draw_next_tokens(self.rule, distributions, rows, moved, drafting)
            changed = (others != tokens) & (matters | np.isin(rows * vocabulary + others, named))
            self.near[which[changed | (matters & (ended != closed))]] = True
        self.open[which[~matters]] = False  # whatever follows, the sample stays in the cell of its beginning


def compute_residual_window(distributions: Distributions) -> np.ndarray:
    """NEAR for the random number that draws from a residual, (g,): rescaling p - q to sum to 1 also scales its rounding errors."""
    p, _, q = distributions
    if q is None:
        return np.full(len(p), NEAR)
    return (NEAR / (1.0 - compute_overlap(p, q)).clamp(min=NEAR)).clamp(max=1.0).cpu().numpy()
