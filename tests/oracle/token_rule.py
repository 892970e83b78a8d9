"""Leviathan et al. 2023, Algorithm 1, on fractions: the distribution of what a speculative decoder writes, by walking every
outcome.

Written from the paper, with nothing of the package: what is compared with it must not share its mistakes. A draft is a
small tree: ``branching`` says how many siblings are drawn under each node of a level, so (1, 1, 1) is a chain of gamma = 3.
The rule is small methods, so that a test can put a mistake in the place of one.

A distribution is a tuple of Fractions indexed by token id; a table maps a prefix (tuple of ids) to a distribution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction

Distribution = tuple[Fraction, ...]
Table = Callable[[tuple[int, ...]], Distribution]
Texts = dict[tuple[int, ...], Fraction]

ONE = Fraction(1)


def beta(p: Distribution, q: Distribution) -> Fraction:
    """Probability that a token drawn from q is accepted: the sum of min(p, q)."""
    return sum(map(min, p, q), Fraction(0))


def total_variation(one: Texts, other: Texts) -> Fraction:
    """Half the sum of the absolute differences of two distributions over texts."""
    return sum((abs(one.get(text, 0) - other.get(text, 0)) for text in {*one, *other}), Fraction(0)) / 2


class Algorithm1:
    """The decoder: p the target's table, q the draft's, as q(prefix, which sibling)."""

    def __init__(self, p: Table, q: Callable[[tuple[int, ...], int], Distribution], branching: tuple[int, ...]):
        self.p, self.q, self.branching = p, q, branching

    # The rule, one method for each sentence of the algorithm.

    def compute_threshold(self, p: Distribution, q: Distribution, token: int) -> Fraction:
        """'reject the sample with probability 1 - p(x)/q(x)' if q(x) > p(x), else accept it."""
        return min(ONE, p[token] / q[token])

    def compute_residual(self, p: Distribution, q: Distribution) -> Distribution:
        """p'(x) = norm(max(0, p(x) - q(x)))."""
        left = [max(Fraction(0), a - b) for a, b in zip(p, q, strict=True)]
        return tuple(mass / sum(left) for mass in left)

    def judge(self, prefix: tuple[int, ...], token: int) -> Distribution:
        """The target's distribution that a first sibling after a prefix is held against."""
        return self.p(prefix)

    def after_rejection(self, prefix: tuple[int, ...], refused: int, probs: Distribution, level: int) -> Texts:
        """What is written if all siblings were rejected: one token of the residual, and nothing else."""
        return {(token,): mass for token, mass in enumerate(probs) if mass}

    def compute_bonus(self, prefix: tuple[int, ...]) -> Texts:
        """What is written after a fully accepted path: one more token of the target."""
        return {(token,): mass for token, mass in enumerate(self.p(prefix)) if mass}

    # The walk.

    def round(self, prefix: tuple[int, ...], level: int = 0) -> Texts:
        """Distribution of the tokens that one round commits."""
        if level == len(self.branching):
            return self.compute_bonus(prefix)
        result: Texts = defaultdict(Fraction)
        for text, mass in self._siblings(prefix, level, 0, None):
            result[text] += mass
        return dict(result)

    def _siblings(self, prefix: tuple[int, ...], level: int, count: int, left: Distribution | None) -> Iterable[tuple]:
        q = self.q(prefix, count)
        for token, drawn in enumerate(q):
            if not drawn:
                continue
            probs = self.judge(prefix, token) if left is None else left
            kept = self.compute_threshold(probs, q, token)
            if kept:
                for text, mass in self.round((*prefix, token), level + 1).items():
                    yield (token, *text), drawn * kept * mass
            if kept == 1:
                continue
            rest = self.compute_residual(probs, q)
            if count + 1 < self.branching[level]:
                later = self._siblings(prefix, level, count + 1, rest)
            else:
                later = self.after_rejection(prefix, token, rest, level).items()
            for text, mass in later:
                yield text, drawn * (1 - kept) * mass


def decoder_distribution(
    round_distribution: Callable[[tuple[int, ...]], Texts], length: int, prefix: tuple[int, ...] = ()
) -> Texts:
    """Distribution of the first ``length`` tokens of a decoder, from the distribution of its rounds."""
    result: Texts = defaultdict(Fraction)
    for text, mass in round_distribution(prefix).items():
        if len(text) >= length:
            result[text[:length]] += mass
            continue
        for rest, more in decoder_distribution(round_distribution, length - len(text), prefix + text).items():
            result[text + rest] += mass * more
    return dict(result)


def target_distribution(
    p: Table, length: int, eos_token_ids: frozenset[int] = frozenset(), prefix: tuple[int, ...] = ()
) -> Texts:
    """Distribution of target-only texts: ``length`` tokens, fewer where an eos token comes first."""
    result: Texts = {}
    for token, mass in enumerate(p(prefix)):
        if mass and (length == 1 or token in eos_token_ids):
            result[(token,)] = mass
        elif mass:
            for rest, more in target_distribution(p, length - 1, eos_token_ids, (*prefix, token)).items():
                result[(token, *rest)] = mass * more
    return result


def tokens_per_round(round_distribution: Texts) -> Fraction:
    """Mean number of tokens that a round commits."""
    return sum((len(text) * mass for text, mass in round_distribution.items()), Fraction(0))
