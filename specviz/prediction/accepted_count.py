"""Tokens per pass at every gamma from texts of the target alone, by counting; no speculative run is needed.

The identity. A round tests a draft token at a place where the target's distribution is p and the draft's is q. The draft token is token x, and kept, with
probability q(x) min(1, p(x) / q(x)) = min(p(x), q(x)); it is refused and x comes as its replacement with probability
p(x) - min(p(x), q(x)), since the residual distribution is max(0, p - q) over exactly the probability of a refusal. Together they make p(x).
So, given that the text has x at a tested place, it was a accepted draft token with probability

    a = min(p(x), q(x)) / p(x) = min(1, q(x) / p(x)),

and as random numbers are fresh and distributions depend on the text alone, the factors of the whole text multiply: given the text, kept or not at one
tested place is independent of every other. verification/overlap.py computes a; here are only probabilities.

The count. Let s be a place at which a round starts, and a round from s test n(s) draft tokens. It writes j + 1 tokens, j < n(s), if
the first j are kept and the next is refused, its replacement being the last token; all n(s) + 1 if all are kept, the bonus being
the last. With k(s, j) the chance that draft j is kept given that those before it were (a at place s + j for a draft that reads the text
alone), the chance that a round starts at t is

    r(0) = 1,   r(t) = sum over s < t of r(s) k(s, 0) ... k(s, t - s - 2) (1 - k(s, t - s - 1)),   k(s, n(s)) = 0,

a chain over places with chances that change from place to place. The sum of r is the expected number of rounds, and tokens over
rounds are the tokens per pass. Over texts drawn from the target's distribution the mean is exact; nothing is assumed of how draft tokens depend on
each other.

Block verification. There the first i draft tokens, drawn with probability q1 .. qi, are kept with w_i = min(1, w_(i-1) p_i / q_i), and
whatever is written behind them follows the target's distribution (verification/joint.py). So given the text they were accepted draft tokens with

    K_i = q1 .. qi w_i / (p1 .. pi) = min(1, q1/p1, q1 q2/(p1 p2), .., q1 .. qi/(p1 .. pi)),

and the count is the same with k(s, j) = K_(j+1) / K_j. The token rule has the product of the minima, which is never more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Chances:
    """What one pass of both models over B texts of N tokens each says about draft tokens, for all gamma up to G.

    kept     (B, N, G) float64 in [0, 1]: for a round that starts at a place, the chance that its draft token j is kept given those before it
    draft_tokens  (B, N) int: how many draft tokens the proposer would make there at most, 0 to G
    """

    kept: np.ndarray
    draft_tokens: np.ndarray

    @classmethod
    def of_chain(cls, chances: np.ndarray, gamma: int) -> Chances:
        """For a proposer that reads the text alone, from its chance at every place, (B, N): draft token j of a round from s stands at s + j."""
        padded = np.pad(chances, ((0, 0), (0, gamma - 1)))
        kept = np.lib.stride_tricks.sliding_window_view(padded, gamma, axis=1)
        return cls(kept, np.full(chances.shape, gamma))

    @classmethod
    def of_block(cls, ratios: np.ndarray, gamma: int) -> Chances:
        """The same under block verification, from log(q / p) at every place, (B, N)."""
        padded = np.pad(ratios, ((0, 0), (0, gamma - 1)))
        products = np.lib.stride_tricks.sliding_window_view(padded, gamma, axis=1).cumsum(axis=2)
        least = np.minimum(np.minimum.accumulate(products, axis=2), 0.0)
        before = np.concatenate([np.zeros_like(least[..., :1]), least[..., :-1]], axis=2)
        kept = np.exp(np.subtract(least, before, out=np.full_like(least, -np.inf), where=np.isfinite(before)))
        return cls(kept, np.full(ratios.shape, gamma))

    def of(self, texts: np.ndarray) -> Chances:
        """Those of some of the texts, by their numbers."""
        return Chances(self.kept[texts], self.draft_tokens[texts])


@dataclass(frozen=True, slots=True)
class Rounds:
    """Expected numbers over the rounds of each text at one gamma.

    tokens   N, of each text
    by_size  (B, gamma + 1): rounds with so many draft tokens
    tested, kept  (B, gamma): draft tokens that were tested, and kept, at each depth
    """

    tokens: int
    by_size: np.ndarray
    tested: np.ndarray
    kept: np.ndarray

    @property
    def count(self) -> np.ndarray:
        """(B,): rounds of each text."""
        return self.by_size.sum(1)

    @property
    def per_pass(self) -> float:
        """Tokens per target pass over all texts: tokens over rounds, not a mean of ratios."""
        return self.tokens * len(self.by_size) / float(self.by_size.sum())

    @property
    def alpha(self) -> float:
        """Share of the tested draft tokens that are kept."""
        tested = float(self.tested.sum())
        return float(self.kept.sum()) / tested if tested else 0.0

    @property
    def hazards(self) -> tuple[float, ...]:
        """P(draft token j is kept, given that it is tested), j = 1 to gamma; 0 at depths that are never reached."""
        tested, kept = self.tested.sum(0), self.kept.sum(0)
        return tuple(np.divide(kept, tested, out=np.zeros_like(kept), where=tested > 0.0).tolist())


def rounds(chances: Chances, gamma: int) -> Rounds:
    """The expected rounds of each text when at most ``gamma`` tokens are drafted in a round; 0 is the target alone.

    A round never draft tokens more than the room behind it allows: the last token of a text is always the rule's own.
    """
    texts, places, most = chances.kept.shape
    assert 0 <= gamma <= most, "as many draft tokens as there are chances for"
    starts = np.zeros((texts, places + 1))
    starts[:, 0] = 1.0
    by_size, tested, kept = np.zeros((texts, gamma + 1)), np.zeros((texts, gamma)), np.zeros((texts, gamma))
    every = np.arange(texts)
    for s in range(places):
        size = np.minimum(chances.draft_tokens[:, s], min(gamma, places - s - 1))
        reach = starts[:, s]
        by_size[every, size] += reach
        for j in range(int(size.max()) + 1):
            drafting = j < size
            chance = np.where(drafting, chances.kept[:, s, min(j, most - 1)], 0.0)
            if j < gamma:
                tested[:, j] += np.where(drafting, reach, 0.0)
                kept[:, j] += reach * chance
            starts[:, s + j + 1] += reach * (1.0 - chance)
            reach = reach * chance
    return Rounds(places, by_size, tested, kept)
