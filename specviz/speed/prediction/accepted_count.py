"""Expected tokens per target pass at every gamma, counted on texts of the target alone. No speculative run is needed.

The identity. A round checks a draft token at a place where the target's distribution is p and the draft's is q. The draft token is x and is
accepted with probability q(x) min(1, p(x) / q(x)) = min(p(x), q(x)). It is rejected, and x comes as its replacement, with probability
p(x) - min(p(x), q(x)), because the residual max(0, p - q) has exactly the mass of a rejection. The two add up to p(x). So where the text
has x at a checked place, x was an accepted draft token with probability

    a = min(p(x), q(x)) / p(x) = min(1, q(x) / p(x)).

Random numbers are fresh and distributions depend on the text alone, so the factors of a whole text multiply: given the text, acceptance
at one checked place is independent of all others. verification/overlap.py computes a from p and q.

The count. Let a round that starts at place s check at most n(s) draft tokens. It writes j + 1 tokens, j < n(s), if the first j are accepted
and the next one is rejected; its replacement is then the last token. It writes n(s) + 1 if all are accepted; the bonus token is then
the last. Let k(s, j) be the probability that draft token j is accepted, given that those before it were (a at place s + j for a draft that
reads the text alone). The probability that a round starts at t is

    r(0) = 1,   r(t) = sum over s < t of r(s) k(s, 0) ... k(s, t - s - 2) (1 - k(s, t - s - 1)),   k(s, n(s)) = 0.

The sum of r is the expected number of rounds, and tokens over rounds are the tokens per target pass. Over texts drawn from the target's
distribution the mean is exact. Nothing is assumed about how draft tokens depend on each other.

Block verification accepts the first i draft tokens, drawn with probabilities q1 .. qi, with w_i = min(1, w_(i-1) p_i / q_i), and the text
after them follows the target's distribution (Sun et al. 2024; verification/block.py). So given the text they were accepted draft
tokens with probability

    K_i = q1 .. qi w_i / (p1 .. pi) = min(1, q1/p1, q1 q2/(p1 p2), .., q1 .. qi/(p1 .. pi)),

and the count is the same with k(s, j) = K_(j+1) / K_j. The token rule has the product of the minima, which is never larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class AcceptanceProbabilities:
    """What one pass of both models over B texts of N tokens says about draft tokens, for every gamma up to G.

    accepted  (B, N, G) float64 in [0, 1]: for a round that starts at a place, the probability that its draft token j is accepted, given that
              those before it were
    drafted   (B, N) int: how many tokens the proposer would draft there at most, 0 to G
    """

    accepted: np.ndarray
    drafted: np.ndarray

    @classmethod
    def from_chain(cls, probabilities: np.ndarray, gamma: int) -> AcceptanceProbabilities:
        """Under the token rule, for a proposer that reads the text alone. probabilities: (B, N), min(1, q / p) at every place."""
        return cls(_slide_windows(probabilities, gamma), np.full(probabilities.shape, gamma))

    @classmethod
    def from_block_rule(cls, log_ratios: np.ndarray, gamma: int) -> AcceptanceProbabilities:
        """The same under block verification. log_ratios: (B, N), log(q / p) at every place."""
        least = np.minimum(np.minimum.accumulate(_slide_windows(log_ratios, gamma).cumsum(axis=2), axis=2), 0.0)
        before = np.concatenate([np.zeros_like(least[..., :1]), least[..., :-1]], axis=2)
        accepted = np.exp(np.subtract(least, before, out=np.full_like(least, -np.inf), where=np.isfinite(before)))
        return cls(accepted, np.full(log_ratios.shape, gamma))


def _slide_windows(values: np.ndarray, gamma: int) -> np.ndarray:
    """(B, N, gamma): the values at each place and at the places after it, 0 beyond the end of a text."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(values, ((0, 0), (0, gamma - 1))), gamma, axis=1)


@dataclass(frozen=True, slots=True)
class ExpectedRounds:
    """Expected numbers over the rounds of each of B texts at one gamma.

    tokens            N, of each text
    by_size           (B, gamma + 1): rounds with so many draft tokens
    tested, accepted  (B, gamma): draft tokens that were checked, and accepted, at each depth
    """

    tokens: int
    by_size: np.ndarray
    tested: np.ndarray
    accepted: np.ndarray

    @property
    def count(self) -> np.ndarray:
        """(B,): rounds of each text."""
        return self.by_size.sum(1)

    @property
    def per_pass(self) -> float:
        """Tokens per target pass over all texts: tokens over rounds, not a mean of ratios."""
        return self.tokens * len(self.by_size) / float(self.by_size.sum())

    def resample_tokens_per_pass(self, weights: np.ndarray) -> np.ndarray:
        """The same in each of R resamples of the texts, (R,). weights: (R, B), how often each text was drawn."""
        return self.tokens * len(self.by_size) / (weights @ self.count)

    @property
    def alpha(self) -> float:
        """Acceptance rate: accepted over checked draft tokens, 0 where none was checked."""
        tested = float(self.tested.sum())
        return float(self.accepted.sum()) / tested if tested else 0.0

    @property
    def hazards(self) -> tuple[float, ...]:
        """Acceptance rate at each depth, given that all draft tokens before it were accepted; 0 at depths that are never reached."""
        tested, accepted = self.tested.sum(0), self.accepted.sum(0)
        return tuple(np.divide(accepted, tested, out=np.zeros_like(accepted), where=tested > 0.0).tolist())


def compute_expected_rounds(probabilities: AcceptanceProbabilities, gamma: int) -> ExpectedRounds:
    """The expected rounds of each text if at most ``gamma`` tokens are drafted in a round; 0 is target-only sampling.

    The last token of a text is always the rule's own, so a round drafts at most one token less than remain.
    """
    texts, places, most = probabilities.accepted.shape
    assert 0 <= gamma <= most, "no more draft tokens than there are probabilities for"
    starts = np.zeros((texts, places + 1))
    starts[:, 0] = 1.0
    by_size, tested, accepted = np.zeros((texts, gamma + 1)), np.zeros((texts, gamma)), np.zeros((texts, gamma))
    every = np.arange(texts)
    for s in range(places):
        size = np.minimum(probabilities.drafted[:, s], min(gamma, places - s - 1))
        reach = starts[:, s]
        by_size[every, size] += reach
        for j in range(int(size.max()) + 1):
            drafting = j < size
            chance = np.where(drafting, probabilities.accepted[:, s, min(j, most - 1)], 0.0)
            if j < gamma:
                tested[:, j] += np.where(drafting, reach, 0.0)
                accepted[:, j] += reach * chance
            starts[:, s + j + 1] += reach * (1.0 - chance)
            reach = reach * chance
    return ExpectedRounds(places, by_size, tested, accepted)
