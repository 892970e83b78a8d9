"""Where the target and the draft differ along a text: how the divergence is shared out among its tokens. Numpy; no torch.

At each token a draft token is accepted with probability beta = 1 - TV(p, q) (Leviathan et al. 2023, theorem 3.5). So 1 - beta is both the
distance of the two distributions and the probability of a rejection there. The curve is Lorenz's (1905), largest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from specviz.records import declare_decimal_places, record_key
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.word_kinds import KINDS
from specviz.statistics.random_streams import RandomUse, make_generator
from specviz.trace import Distribution

TOP_SHARES = (0.01, 0.05, 0.10)  # of the tokens
MAX_DIVERGENCES = 12  # places whose distributions are kept
MIN_TEXTS = 8  # texts from which on whole texts are resampled, not tokens
RESAMPLES = 1000  # resamples


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A text scored by both models: one entry for each of its N tokens.

    Attributes:
        tokens: (N,) ids.
        p, q: (N,) probability of each under the target and the draft.
        beta: (N,) sum of min(p, q) over the vocabulary.
        kinds: (N,) of KINDS.
        divergences: Place -> both distributions there, at the MAX_DIVERGENCES places where beta is least; each includes the token of the
            text.
        pieces: Id -> bytes as hex, of every token that it mentions; empty where single tokens are not shown.

    Raises ValueError for columns of different lengths, a beta outside [0, 1], and kinds that are not known.
    """

    tokens: tuple[int, ...]
    p: tuple[float, ...] = field(metadata=declare_decimal_places(6))
    q: tuple[float, ...] = field(metadata=declare_decimal_places(6))
    beta: tuple[float, ...] = field(metadata=declare_decimal_places(6))
    kinds: tuple[str, ...]
    divergences: Mapping[int, Distribution] = field(default_factory=dict, hash=False, metadata=record_key("forks"))
    pieces: Mapping[int, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if len({len(column) for column in (self.tokens, self.p, self.q, self.beta, self.kinds)}) != 1:
            raise ValueError("the columns of a scored text differ in length")
        if not all(0.0 <= beta <= 1.0 + 1e-9 for beta in self.beta) or not set(self.kinds) <= set(KINDS):
            raise ValueError("a beta of a scored text is no probability, or a kind is not known")

    @property
    def distances(self) -> np.ndarray:
        """(N,) 1 - beta in [0, 1]: total variation distance of the two distributions, and probability of a rejection."""
        return 1.0 - np.asarray(self.beta)

    @property
    def divergence_places(self) -> tuple[int, ...]:
        """The places whose distributions are kept, furthest apart first."""
        return tuple(sorted(self.divergences, key=lambda place: (self.beta[place], place)))


@dataclass(frozen=True, slots=True)
class WordKind:
    """One kind of word.

    Attributes:
        count: Its tokens.
        tokens: Its share of all tokens.
        distance: Mean of 1 - beta over it.
        divergence: Its share of the sum of 1 - beta.
    """

    name: str
    count: int
    tokens: float
    distance: Estimate
    divergence: Estimate


@dataclass(frozen=True, slots=True)
class DivergenceProfile:
    """How the divergence of some texts is shared out among their tokens.

    Attributes:
        count: Tokens.
        total: Sum of 1 - beta over them.
        x, y: Lorenz's curve, from (0, 0).
        tops: Share held by each of TOP_SHARES of the tokens.
        by_text: Whether whole texts were resampled for the intervals; else single tokens, as if they were independent.
    """

    count: int
    texts: int
    total: float
    x: tuple[float, ...]
    y: tuple[float, ...]
    tops: tuple[Estimate, ...]
    kinds: tuple[WordKind, ...]
    by_text: bool


def compute_lorenz_curve(apart: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of the tokens, furthest apart first, against the share of all divergence that they hold: (N + 1,) each, from 0 to 1.

    Without any divergence y stays 0.
    """
    held = np.concatenate([[0.0], np.cumsum(np.sort(apart)[::-1])])
    return np.linspace(0.0, 1.0, held.size), held / held[-1] if held[-1] > 0.0 else held


@lru_cache(maxsize=32)
def compute_divergence_profile(texts: tuple[ScoredText, ...]) -> DivergenceProfile:
    """What all these texts say together; at least one token in all."""
    apart = np.concatenate([one.distances for one in texts])
    kinds = np.concatenate([[KINDS.index(kind) for kind in one.kinds] for one in texts])
    tops, means, held = [], [], []
    for places in _draw_resamples([len(one.beta) for one in texts]):
        top, mean, share, _ = _compute_shares(apart[places], kinds[places])
        tops.append(top)
        means.append(mean)
        held.append(share)
    top, mean, share, counts = _compute_shares(apart, kinds)
    x, y = compute_lorenz_curve(apart)
    rows = tuple(
        WordKind(name, int(counts[k]), float(counts[k] / apart.size), _estimate_share(mean[k], means, k, counts[k]), _estimate_share(share[k], held, k, counts[k]))
        for k, name in enumerate(KINDS)
        if counts[k]
    )  # fmt: skip
    shares = tuple(_estimate_share(value, tops, place, apart.size) for place, value in enumerate(top))
    return DivergenceProfile(
        apart.size, len(texts), float(apart.sum()), tuple(x.tolist()), tuple(y.tolist()), shares, rows, len(texts) >= MIN_TEXTS
    )


def _compute_shares(apart: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of some tokens: the shares that TOP_SHARES hold, and for each kind the mean of 1 - beta, its share of the sum, and its count."""
    sums, counts = np.bincount(kinds, apart, len(KINDS)), np.bincount(kinds, minlength=len(KINDS))
    with np.errstate(invalid="ignore"):
        return np.interp(TOP_SHARES, *compute_lorenz_curve(apart)), sums / counts, sums / sums.sum(), counts


def _estimate_share(value: float, again: Sequence[np.ndarray], place: int, count: int) -> Estimate:
    """A number with the middle 95% of its resamples. A single token has no interval."""
    found = np.array([row[place] for row in again])
    found = found[np.isfinite(found)]
    value = float(value) if np.isfinite(value) else 0.0
    if count < 2 or not found.size:
        return Estimate(value, value, value, 1)
    return Estimate.from_resamples(value, found, int(count))


def _draw_resamples(sizes: Sequence[int]) -> Iterator[np.ndarray]:
    """Places of RESAMPLES resamples, drawn with replacement (Efron 1979): of whole texts if there are MIN_TEXTS, since a text's tokens depend on each other."""
    rng, edges = make_generator(0, RandomUse.RESAMPLED), np.concatenate([[0], np.cumsum(sizes)])
    for _ in range(RESAMPLES):
        if len(sizes) >= MIN_TEXTS:
            yield np.concatenate([np.arange(edges[one], edges[one + 1]) for one in rng.integers(0, len(sizes), len(sizes))])
        else:
            yield rng.integers(0, edges[-1], edges[-1])
