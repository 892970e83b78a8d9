"""Where a big and a small model part along a text: how the divergence is spread over its tokens. Plain numbers, numpy; no torch.

At each token the draft's draft token is kept with probability beta = 1 - TV(p, q) (Leviathan et al. 2023, theorem 3.5), so 1 - beta is
both how far the two distributions lie apart and how often a draft token there is refused. The curve is Lorenz's (1905), the largest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from specviz.measure.estimate import Estimate
from specviz.measure.word_kinds import KINDS
from specviz.records import digits
from specviz.statistics.streams import Use, generator
from specviz.trace import Distribution

TOPS = (0.01, 0.05, 0.10)  # of the tokens
FORKS = 12  # places whose distributions are kept
MANY = 8  # texts from which on whole texts are drawn again, not tokens
AGAIN = 1000  # heaps drawn again


@dataclass(frozen=True, slots=True)
class Read:
    """One text, read by both models: one entry for each of its tokens.

    tokens  (N,) ids; p, q  (N,) what the target and the draft gave to each; beta  (N,) sum of min(p, q) over the vocabulary
    kinds   (N,) of KINDS
    forks   place -> both distributions there, at the FORKS places where beta is least; the token written is among each one's tokens
    pieces  id -> bytes as hex, of every token that it mentions; empty where nobody looks at single tokens

    Raises ValueError for columns of different lengths and entries that are no kinds or probabilities.
    """

    tokens: tuple[int, ...]
    p: tuple[float, ...] = field(metadata=digits(6))
    q: tuple[float, ...] = field(metadata=digits(6))
    beta: tuple[float, ...] = field(metadata=digits(6))
    kinds: tuple[str, ...]
    forks: Mapping[int, Distribution] = field(default_factory=dict, hash=False)
    pieces: Mapping[int, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if len({len(column) for column in (self.tokens, self.p, self.q, self.beta, self.kinds)}) != 1:
            raise ValueError("the columns of a reading differ in length")
        if not all(0.0 <= beta <= 1.0 + 1e-9 for beta in self.beta) or not set(self.kinds) <= set(KINDS):
            raise ValueError("a beta of a reading is no probability, or a kind is not known")

    @property
    def apart(self) -> np.ndarray:
        """(N,) 1 - beta: the distance of the two distributions, and the chance that a draft token is rejected, in [0, 1]."""
        return 1.0 - np.asarray(self.beta)

    @property
    def deepest(self) -> tuple[int, ...]:
        """The places whose distributions are kept, furthest apart first."""
        return tuple(sorted(self.forks, key=lambda place: (self.beta[place], place)))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of word.

    count  its tokens; tokens  its share of all; apart  mean of 1 - beta over it; divergence  its share of the sum of 1 - beta
    """

    name: str
    count: int
    tokens: float
    apart: Estimate
    divergence: Estimate


@dataclass(frozen=True, slots=True)
class Spread:
    """How the divergence of some texts is spread over their tokens. x, y: Lorenz's curve, from (0, 0); tops: share held by TOPS of the tokens.

    by_text  whether whole texts were drawn again for the intervals; else single tokens, as if they were independent
    """

    count: int
    texts: int
    total: float
    x: tuple[float, ...]
    y: tuple[float, ...]
    tops: tuple[Estimate, ...]
    kinds: tuple[Kind, ...]
    by_text: bool


def lorenz(apart: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of the tokens, the furthest apart first, against the share of all divergence that they hold: (N + 1,) each, from 0 to 1.

    Where there is no divergence at all, nothing is held by anything: y stays 0.
    """
    held = np.concatenate([[0.0], np.cumsum(np.sort(apart)[::-1])])
    return np.linspace(0.0, 1.0, held.size), held / held[-1] if held[-1] > 0.0 else held


def top_share(apart: np.ndarray, share: float) -> float:
    """Share of all divergence in the ``share`` of the tokens that lie furthest apart; between two tokens on a straight line."""
    return float(np.interp(share, *lorenz(apart)))


@lru_cache(maxsize=32)
def spread(reads: tuple[Read, ...]) -> Spread:
    """What all these texts say together; at least one token in all."""
    apart = np.concatenate([one.apart for one in reads])
    kinds = np.concatenate([[KINDS.index(kind) for kind in one.kinds] for one in reads])
    tops, means, held = [], [], []
    for heap in _again([len(one.beta) for one in reads]):
        top, mean, share, _ = _measured(apart[heap], kinds[heap])
        tops.append(top)
        means.append(mean)
        held.append(share)
    top, mean, share, counts = _measured(apart, kinds)
    x, y = lorenz(apart)
    rows = tuple(
        Kind(name, int(counts[k]), float(counts[k] / apart.size), _share(mean[k], means, k, counts[k]), _share(share[k], held, k, counts[k]))
        for k, name in enumerate(KINDS)
        if counts[k]
    )  # fmt: skip
    shares = tuple(_share(value, tops, place, apart.size) for place, value in enumerate(top))
    return Spread(
        apart.size, len(reads), float(apart.sum()), tuple(x.tolist()), tuple(y.tolist()), shares, rows, len(reads) >= MANY
    )


def _measured(apart: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of one heap of tokens: the shares that TOPS hold, and for each kind the mean of 1 - beta, its share of the sum, its count."""
    sums, counts = np.bincount(kinds, apart, len(KINDS)), np.bincount(kinds, minlength=len(KINDS))
    with np.errstate(invalid="ignore"):
        return np.interp(TOPS, *lorenz(apart)), sums / counts, sums / sums.sum(), counts


def _share(value: float, again: Sequence[np.ndarray], place: int, count: int) -> Estimate:
    """A number with the middle 95% of what the heaps drawn again gave for it; of a single token nothing can be drawn again."""
    found = np.array([row[place] for row in again])
    found = found[np.isfinite(found)]
    value = float(value) if np.isfinite(value) else 0.0
    if count < 2 or not found.size:
        return Estimate(value, value, value, 1)
    return Estimate.of_resamples(value, found, int(count))


def _again(sizes: Sequence[int]) -> Iterator[np.ndarray]:
    """Places of AGAIN heaps drawn with replacement (Efron 1979): whole texts where there are MANY, since a text's tokens hang together."""
    luck, edges = generator(0, Use.RESAMPLED), np.concatenate([[0], np.cumsum(sizes)])
    for _ in range(AGAIN):
        if len(sizes) >= MANY:
            yield np.concatenate([np.arange(edges[one], edges[one + 1]) for one in luck.integers(0, len(sizes), len(sizes))])
        else:
            yield luck.integers(0, edges[-1], edges[-1])
