"""Which draws lie so near an edge that another machine may draw them otherwise.

In float32 distributions differ from machine to machine, and with the shape of a pass, in the seventh digit. A random number that close to what it
is compared with, a threshold or the edge between two tokens, may fall to the other side.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from specviz.decoding.sampler import Distributions, Shard, Watch, settled
from specviz.models.base import LanguageModel
from specviz.proposers.base import ChainProposer
from specviz.randomness import Purpose, StreamRandomness
from specviz.settings import Settings
from specviz.verification.overlap import overlap
from specviz.verification.token_rule import TokenRule

NEAR = 2e-6  # distributions differ by less: 1.6e-6 at most between the passes of the shipped pair


def near_edges(
    target: LanguageModel,
    proposer: ChainProposer,
    rule: TokenRule,
    randomness: StreamRandomness,
    settings: Settings,
    prompt: Sequence[int],
    beginnings: Collection[tuple[int, ...]],
    eos_token_ids: frozenset[int] = frozenset(),
    first: int = 0,
    count: int = 1,
    watch: Watch = lambda share: None,
) -> np.ndarray:
    """Which of the draws ``first`` to ``first + count - 1`` of ``shared_distributions`` may fall into another cell where distributions round otherwise, (count,) bool.

    Those of which a random number NEAR beside where it fell would have given another beginning of the given ones, or ended a round
    elsewhere. Beginnings hold every beginning of theirs; draws are followed as long as their text is one of them, so this is
    little work.
    """
    return _Edges(target, proposer, rule, randomness, settings, prompt, eos_token_ids, first, count, beginnings=beginnings).found(
        watch
    )


class _Edges(Shard):
    """The same draws as far as their texts are beginnings that matter, and how near each of their random numbers lies to an edge."""

    def __init__(self, *shard: Any, beginnings: Collection[tuple[int, ...]]):
        super().__init__(*shard)
        self.beginnings = set(beginnings)
        self.near = np.zeros(self.count, dtype=bool)

    def found(self, watch: Watch) -> np.ndarray:
        self.drawn("", watch, None, lambda half: None)
        return self.near

    def _write(
        self,
        place: int,
        who: np.ndarray,
        distributions: Distributions,
        randomness: dict[Purpose, np.ndarray],
        drafting: np.ndarray,
    ) -> None:
        super()._write(place, who, distributions, randomness, drafting)
        if not len(who):
            return
        text = tuple(self.tokens[who[0], :place].tolist())
        named = np.array([name[place] for name in self.beginnings if len(name) == place + 1 and name[:place] == text])
        tokens, closed = self.tokens[who, place], self.start[who] == place + 1
        matters = np.isin(tokens, named)
        near = dict.fromkeys(randomness, NEAR) | {Purpose.RESIDUAL: residual_window(distributions)}
        for sign in (-1.0, 1.0):
            beside = {use: np.clip(u + sign * near[use], 0.0, 1.0) for use, u in randomness.items()}
            others, ended = settled(self.rule, distributions, beside, drafting)
            moved = (others != tokens) & (matters | np.isin(others, named))
            self.near[who[moved | (matters & (ended != closed))]] = True
        self.open[who[~matters]] = False  # whatever follows, it stays in the cell of its beginning


def residual_window(distributions: Distributions) -> float:
    """How near counts for the random number of a residual: p - q is rescaled to sum to 1, and what rounds in it with it."""
    p, _, q = distributions
    return NEAR if q is None else min(1.0, NEAR / max(NEAR, 1.0 - float(overlap(p, q))))
